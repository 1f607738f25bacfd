"""A log is no queue: nothing takes lines out."""
import json
from pathlib import Path

LOG = Path("log.jsonl")


def write(event):
    with LOG.open("a") as file:
        file.write(json.dumps(event) + "\n")


def show():
    return [json.loads(line) for line in LOG.read_text().splitlines()]
