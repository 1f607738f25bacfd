"""The shop's pages."""

from django.db import transaction
from django.http import HttpRequest, JsonResponse

from shop.models import Order
from shop.tasks import send_mail


def order(_request: HttpRequest, number: int) -> JsonResponse:
    """Take an order. Its mail is enqueued exactly if the order is committed."""
    with transaction.atomic():
        Order.objects.create(number=number)
        result = send_mail.enqueue(number)
    return JsonResponse({"job": result.id}, status=202)


def orders(_request: HttpRequest) -> JsonResponse:
    """List orders, and how many mails were sent for each."""
    return JsonResponse({each.number: each.mailed for each in Order.objects.all()})


def job(_request: HttpRequest, result_id: str) -> JsonResponse:
    """Tell what became of a mail."""
    return JsonResponse({"status": send_mail.get_result(result_id).status})
