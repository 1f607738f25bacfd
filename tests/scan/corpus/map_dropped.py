"""An error of map is raised where its results are read; they are not."""
from concurrent.futures import ThreadPoolExecutor


def send(number):
    raise ValueError(number)


def main(numbers):
    with ThreadPoolExecutor() as pool:
        pool.map(send, numbers)  # expect: future-dropped
        print(list(pool.map(str, numbers)))


def check():
    main([1, 2])
