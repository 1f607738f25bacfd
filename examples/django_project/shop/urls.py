"""Where the shop's pages are."""

from django.urls import path

from shop import views

urlpatterns = [
    path("orders/<int:number>", views.order),
    path("orders", views.orders),
    path("jobs/<str:result_id>", views.job),
]
