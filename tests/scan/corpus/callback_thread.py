"""So does a thread that is started by hand, with a partial."""
import threading
from functools import partial


async def send(number):
    pass


def main():
    thread = threading.Thread(target=partial(send, 1))  # expect: async-callback
    thread.start()
    thread.join()
