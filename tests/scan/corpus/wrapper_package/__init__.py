"""The wrapper is imported through a package."""
from .spawning import start

__all__ = ["start"]
