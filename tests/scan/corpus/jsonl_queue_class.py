"""The same with a path, rewritten with what is left."""
import json
from pathlib import Path


class Spool:
    def __init__(self, path: Path):
        self.path = path

    def put(self, event):
        with self.path.open("a") as file:  # expect: jsonl-queue
            file.write(json.dumps(event))
            file.write("\n")

    def take(self):
        events = [json.loads(line) for line in self.path.read_text().splitlines()]
        self.path.write_text("".join(json.dumps(each) + "\n" for each in events[1:]))
        return events[0]
