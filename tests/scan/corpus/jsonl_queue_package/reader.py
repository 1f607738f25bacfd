import json
import os

from .writer import PENDING


def drain():
    with open(PENDING) as file:
        jobs = [json.loads(line) for line in file]
    os.remove(PENDING)
    return jobs
