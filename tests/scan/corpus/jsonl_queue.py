"""One function appends, another reads and empties."""
import json
import os

QUEUE = "queue.jsonl"


def put(event):
    with open(QUEUE, "a") as file:  # expect: jsonl-queue
        file.write(json.dumps(event) + "\n")


def drain():
    with open(QUEUE) as file:
        events = [json.loads(line) for line in file]
    os.remove(QUEUE)
    return events
