"""A handler that raises again catches nothing."""
import logging
from concurrent.futures import ThreadPoolExecutor

executor = ThreadPoolExecutor()


def deliver(number):
    try:
        print(1 / number)
    except Exception:
        logging.debug("failed")
        raise


def main():
    executor.submit(deliver, 0)  # expect: future-dropped


def check():
    main()
    executor.shutdown()
