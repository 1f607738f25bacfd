"""So does atexit."""
import atexit


class Buffer:
    async def flush(self):
        pass

    def open(self):
        atexit.register(self.flush)  # expect: async-callback
