"""A callback is told of each error: whoever only waits for these tasks need not read them."""
import asyncio


class Mirror:
    def __init__(self):
        self.failed = []

    def note(self, task):
        if task.exception():
            self.failed.append(task.exception())

    def deletions(self, names, delete):
        found = []
        for name in names:
            task = asyncio.create_task(delete(name))
            task.add_done_callback(self.note)
            found.append(task)
        return found

    async def update(self, names, delete, create):
        tasks = []
        tasks.extend(self.deletions(names, delete))
        for name in names:
            task = asyncio.create_task(create(name))
            task.add_done_callback(self.note)
            tasks.append(task)
        await asyncio.gather(*tasks, return_exceptions=True)


def finish(tasks, note):
    together = asyncio.gather(*tasks)
    together.add_done_callback(note)
