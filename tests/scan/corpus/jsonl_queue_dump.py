"""json.dump straight into the file."""
import json
from pathlib import Path

QUEUE = Path("queue.jsonl")


def put(event):
    with QUEUE.open("a") as file:  # expect: jsonl-queue
        json.dump(event, file)
        file.write("\n")


def drain():
    with QUEUE.open() as file:
        events = [json.loads(line) for line in file]
    QUEUE.unlink()
    return events
