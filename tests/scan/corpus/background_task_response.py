"""The same by hand."""
from starlette.background import BackgroundTask
from starlette.responses import PlainTextResponse


def mail(address):
    print(address)


async def order(request):
    return PlainTextResponse("ok", background=BackgroundTask(mail, "ann"))  # expect: background-task
