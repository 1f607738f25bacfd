"""A method returns the task, and another one drops it."""
import asyncio


class Base:
    def _spawn(self, coroutine):
        return asyncio.create_task(coroutine)


class Service(Base):
    async def send(self):
        pass

    async def start(self):
        self._spawn(self.send())  # expect: dangling-task


def check():
    asyncio.run(Service().start())
