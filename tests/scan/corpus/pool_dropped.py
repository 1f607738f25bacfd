"""So is that of a pool of processes."""
from multiprocessing import Pool


def send(number):
    raise ValueError(number)


def main():
    pool = Pool(2)
    pool.apply_async(send, (1,))  # expect: future-dropped
    pool.close()
