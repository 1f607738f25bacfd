"""A shop on FastAPI: a request enqueues a mail, and a worker in a process of its own sends it.

Run it, in this directory:   uvicorn fastapi_app:app
and in another terminal:     standfast worker fastapi_app:sf
Then:                        curl -X POST http://127.0.0.1:8000/orders/7
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException

from standfast import IdempotencyConflict, Job, Standfast
from standfast.fastapi import answer_errors, current, lifespan

MAIL = Path(os.environ.get("SHOP_MAIL", "mail.txt"))
SECONDS = float(os.environ.get("SHOP_SECONDS", "0"))

sf = Standfast()  # ./standfast.db, or what STANDFAST_URL names
app = FastAPI(lifespan=lifespan(sf, worker=False))
answer_errors(app)  # a full queue is 429, a store that is away 503
Queue = Annotated[Standfast, Depends(current)]


@sf.handler("mail")
def send(job: Job) -> str:
    """Send a mail: here, a line in a file."""
    time.sleep(SECONDS)
    with MAIL.open("a") as sent:
        sent.write(f"{job.payload['order']}\n")
    return "sent"


@app.post("/orders/{number}", status_code=202)
async def order(number: int, queue: Queue, *, gift: bool = False) -> dict[str, Any]:
    """Take an order. When this answers, the mail is on disk, and the same order sends no second one."""
    mail = {"order": number, "gift": gift}
    try:
        receipt = await queue.enqueue("mail", mail, idempotency_key=f"order-{number}")
    except IdempotencyConflict as conflict:  # the order is known, and was another one
        raise HTTPException(409, str(conflict)) from conflict
    return {"job": receipt.id}


@app.get("/jobs/{job_id}")
async def job(job_id: str, queue: Queue) -> dict[str, Any]:
    """Tell what became of a mail."""
    found = await queue.status(job_id)
    if found is None:
        raise HTTPException(404)
    return {"state": found.state, "result": found.result}
