"""`manage.py standfast …`: standfast's command line, on the store of this project's tasks."""

from __future__ import annotations

from standfast.django.passing_on import PassingOn


class Command(PassingOn):
    """`manage.py standfast jobs` is `standfast jobs`, without having to name the store. It takes `--backend ALIAS`."""

    help = "Runs a command of standfast's command line on the store of this project's tasks."

    def pass_on(self, arguments: list[str], name: str) -> None:
        """Run it."""
        self.run_standfast(arguments, name)
