"""The loop is an attribute."""
import asyncio


class Client:
    def __init__(self):
        self.loop = asyncio.new_event_loop()

    async def send(self):
        pass

    def start(self):
        self.loop.create_task(self.send())  # expect: dangling-task


def check():
    client = Client()
    client.start()
    client.loop.run_until_complete(asyncio.sleep(0))
    client.loop.close()
