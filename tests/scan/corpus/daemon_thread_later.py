"""Made a daemon after it was made, and writes through a second function."""
import json
import threading


def save(event):
    with open("events.json", "w") as file:
        json.dump(event, file)


def run(event):
    save(event)


def track(event):
    thread = threading.Thread(target=run, args=(event,))  # expect: daemon-thread-io
    thread.daemon = True
    thread.start()
