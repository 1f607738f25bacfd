"""The error of a thread's work is never seen."""
from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor()


def send(number):
    raise ValueError(number)


def main():
    pool.submit(send, 1)  # expect: future-dropped


def check():
    main()
