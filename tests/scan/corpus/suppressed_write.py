"""So is a disk that is full."""
import contextlib
import json


def save(state):
    with contextlib.suppress(BaseException):  # expect: io-error-suppressed
        with open("state.json", "w") as file:
            json.dump(state, file)
