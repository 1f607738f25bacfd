"""`standfast dead`: commands about letters, collected from the wings that own them."""

from standfast.wings.letters import disposal_commands
from standfast.wings.letters.commands import dead
from standfast.wings.redrives.commands import plan, redrive, redrives

for command in (plan, redrive, redrives, *disposal_commands.COMMANDS):
    dead.add_command(command)

__all__ = ["dead"]
