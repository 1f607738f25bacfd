"""A shop on Flask: an order and its mail are written in one transaction of the shop's own SQLite database.

Run it, in this directory:   flask --app flask_app run
and in another terminal:     flask --app flask_app standfast worker
Then:                        curl -X POST http://127.0.0.1:5000/orders/7
"""

from __future__ import annotations

import os
import sqlite3
import time
from typing import Any

from flask import Flask, current_app, g

from standfast import Job, Standfast
from standfast.flask import current_standfast, init_app

DATABASE = os.environ.get("SHOP_DATABASE", "shop.db")
SECONDS = float(os.environ.get("SHOP_SECONDS", "0"))

app = Flask(__name__)
app.config["DATABASE"] = DATABASE
sf = init_app(app, Standfast())  # ./standfast.db, or what STANDFAST_URL names
sf.outbox(lambda: sqlite3.connect(DATABASE), with_workers=True)  # workers bring what the shop has committed


def database() -> sqlite3.Connection:
    """Give the connection of this request, or of this attempt."""
    if "database" not in g:
        g.database = sqlite3.connect(current_app.config["DATABASE"])
        g.database.execute("CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY, mailed INTEGER DEFAULT 0)")
    connection: sqlite3.Connection = g.database
    return connection


@app.teardown_appcontext
def close(_error: BaseException | None) -> None:
    """Close the connection, if there is one."""
    if "database" in g:
        g.database.close()


@sf.handler("mail")
def send(job: Job) -> str:
    """Send a mail: here, a mark in the database."""
    time.sleep(SECONDS)
    with database() as shop:
        shop.execute("UPDATE orders SET mailed = mailed + 1 WHERE number = ?", (job.payload["order"],))
    return "sent"


@app.post("/orders/<int:number>")
def order(number: int) -> Any:
    """Take an order. Its mail is enqueued exactly if the order is committed."""
    with database() as shop:
        shop.execute("INSERT INTO orders (number) VALUES (?)", (number,))
        receipt = current_standfast.enqueue_sync("mail", {"order": number}, tx=shop)
    return {"job": receipt.id}, 202


@app.get("/orders")
def orders() -> Any:
    """List orders, and how many mails were sent for each."""
    return dict(database().execute("SELECT number, mailed FROM orders").fetchall())
