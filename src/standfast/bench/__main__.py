"""`python -m standfast.bench`."""

import click

from standfast.bench import command


@click.command()
@click.option(
    "--url", help="The disk of this store (which is not touched), or a server; default: the current directory."
)
@click.option("--quick", is_flag=True, help="Take a minute: smaller backlogs, shorter measurements.")
@click.option("--rounds", default=3, show_default=True, help="Interleaved rounds; the median counts.")
@click.option(
    "--peers", metavar="PATH", help="On PostgreSQL: an environment with the other queues, or none; else one is created."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def main(url: str | None, *, quick: bool, rounds: int, peers: str | None, as_json: bool) -> None:
    """Measure standfast and raw SQLite, or standfast and other queues on a PostgreSQL server."""
    command.main(url, quick, rounds, as_json, peers)


main(prog_name="python -m standfast.bench")
