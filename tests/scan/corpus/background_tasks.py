"""The client has its answer, and the mail may never go."""
from fastapi import BackgroundTasks, FastAPI

app = FastAPI()


def mail(address):
    print(address)


@app.post("/orders")
async def order(background: BackgroundTasks):
    background.add_task(mail, "ann@example.org")  # expect: background-task
    return {"ok": True}
