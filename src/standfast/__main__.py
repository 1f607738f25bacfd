"""`python -m standfast`: the command line, where the script is not on the path."""

from standfast.cli.main import main

main(prog_name="standfast")
