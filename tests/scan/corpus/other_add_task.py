"""Another class has the same method; and what only closes may be lost."""
from starlette.background import BackgroundTask
from starlette.responses import PlainTextResponse


class Board:
    def add_task(self, title):
        print(title)


def main(board: Board):
    board.add_task("buy milk")


async def download(request, file):
    return PlainTextResponse("ok", background=BackgroundTask(file.aclose))
