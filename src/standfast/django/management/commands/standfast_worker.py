"""`manage.py standfast_worker`: run tasks until told to stop."""

from __future__ import annotations

from standfast.django.passing_on import PassingOn


class Command(PassingOn):
    """`standfast worker`, for the tasks of this project. It takes the same options, and `--backend ALIAS`."""

    help = "Runs tasks until told to stop. Takes the options of `standfast worker`, and --backend ALIAS."

    def pass_on(self, arguments: list[str], name: str) -> None:
        """Work."""
        self.run_standfast(["worker", *arguments], name)
