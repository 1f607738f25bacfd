"""The executor is an attribute."""
from concurrent.futures import ThreadPoolExecutor


class Mailer:
    def __init__(self):
        self._workers = ThreadPoolExecutor(4)

    def send(self, number):
        raise ValueError(number)

    def notify(self):
        self._workers.submit(self.send, 1)  # expect: future-dropped


def check():
    mailer = Mailer()
    mailer.notify()
    mailer._workers.shutdown()
