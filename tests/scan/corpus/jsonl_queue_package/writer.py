import json

PENDING = "pending.jsonl"
HISTORY = "history.jsonl"


def put(job):
    with open(PENDING, "a") as file:  # expect: jsonl-queue
        file.write(json.dumps(job) + "\n")
    with open(HISTORY, "a") as file:
        file.write(json.dumps(job) + "\n")
