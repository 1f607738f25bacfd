"""`standfast dead`: what is done with letters, from the wings that do it."""

from standfast.wings.letters import disposal_commands
from standfast.wings.letters.commands import dead
from standfast.wings.redrives.commands import plan, redrive, redrives

for command in (plan, redrive, redrives, *disposal_commands.COMMANDS):
    dead.add_command(command)

__all__ = ["dead"]
