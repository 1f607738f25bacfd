"""The application's hooks: when workers start and end, around attempts, and after failures."""

from __future__ import annotations

from standfast.application.parts import Parts
from standfast.application.wrapping import Wrap, wrap_function
from standfast.worker.failure_calls import Hook, checked_hook
from standfast.worker.life_hooks import Hook as LifeHook
from standfast.worker.life_hooks import checked_life_hook
from standfast.worker.middleware import Around


class Hooking(Parts):
    """Takes the application's hooks. See docs/hooks.md."""

    def on_startup(self, hook: LifeHook) -> LifeHook:
        """Call a function in every worker process before its first claim: `@sf.on_startup`.

        It may be plain or async, and takes no arguments. If it fails, the worker does not start, and claims nothing.
        """
        self._life.on_startup.append(checked_life_hook(hook, "on_startup"))
        return hook

    def on_shutdown(self, hook: LifeHook) -> LifeHook:
        """Call a function in every worker process after its last attempt has ended: `@sf.on_shutdown`.

        It may be plain or async, and takes no arguments. Its errors are logged; after 30 s it is no longer waited for.
        """
        self._life.on_shutdown.append(checked_life_hook(hook, "on_shutdown"))
        return hook

    def middleware(self, around: Around) -> Around:
        """Wrap `async def around(job, call_next)` around every attempt, in order of declaration: `@sf.middleware`.

        `await call_next()` calls the next middleware and finally the handler, once; it returns the handler's result or
        raises its error. What the middleware returns or raises is the outcome of the attempt.
        """
        return self._middleware.declare(around)

    def on_failure(self, hook: Hook) -> Hook:
        """Call a function with `(job, failure, exception)` when an attempt has failed here: `@sf.on_failure`.

        It is called after every failed attempt, once its end is written; `failure.final` is true after the last one.
        It may be plain or async and cannot change what happens to the job; errors that it raises are logged and
        counted. `exception` is None where there is none: the handler returned its error, or its worker was lost.
        """
        self._registry.failure_hooks.append(checked_hook(hook))
        return hook

    def wrap_handlers(self, wrap: Wrap) -> None:
        """Wrap every handler's function: `wrap(function, is_async=…)` returns the function to call instead.

        For frameworks whose context must be entered and left in the very thread that a plain function runs in.
        """
        self._wraps.append(wrap)
        for handler in self._registry.own.values():
            wrap_function(handler, wrap)
