"""What a page says after something was done: the address names which of these, never the words."""

from __future__ import annotations

DONE = {
    "retry": "Done: it runs again as soon as it may.",
    "cancel": "Done: it is cancelled, or was asked to stop if it was running.",
    "replay": "Done: the letter went back to work, or was found to have landed. The timeline says which.",
    "asked": "Nothing ran yet: the policy wants a person to approve it first. The approval was asked for; this is it.",
    "amend": "The payload was changed. Nothing runs by itself: replay it when you are ready.",
    "resolve": "The letter is resolved.",
    "discard": "The letter is discarded.",
    "quarantine": "The letter is set apart for its owner.",
    "pause": "The queue is paused: nothing more of it starts.",
    "resume": "The queue goes on.",
    "redrive": "The redrive is on disk and goes on in any worker.",
    "redrive-pause": "The redrive is paused; what was replayed goes on.",
    "redrive-resume": "The redrive goes on.",
    "redrive-cancel": "The redrive is over; the rest of the letters stays as it is.",
    "approve": "Approved: what was asked for is performed.",
    "deny": "Denied.",
    "schedule-pause": "The schedule is paused.",
    "schedule-resume": "The schedule goes on with its next regular tick.",
    "schedule-remove": "The schedule is gone; the jobs it enqueued go on.",
    "workflow-cancel": "The workflow is being cancelled.",
    "revoke": "The token counts no more.",
}
