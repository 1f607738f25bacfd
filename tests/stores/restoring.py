"""Keep a store as files of a fixture, and make a store of them again."""

from __future__ import annotations

import re
import subprocess
import zipfile
from pathlib import Path

from tests.postgres import PostgresServer, connect, fresh_schema, in_schema, split_schema

SCHEMA = "kept_store"
"""The schema's name in a dump, wherever it was dumped and is restored to."""
FILE = "queue.db"
BESIDE = f"{FILE}-audit"
"""Where a SQLite store notes the heads of its audit chain."""
DUMPED = "queue.sql"
PSQL_ONLY = re.compile(r"^(\\|SET |SELECT pg_catalog.set_config|--).*\n", re.MULTILINE)
"""What only `psql` understands, or a server of that very version, and what says where the dump came from."""


def keep_file(path: Path, archive: Path) -> None:
    """Pack a SQLite store that nobody has open, with what it notes beside."""
    assert not path.with_name(f"{FILE}-wal").exists(), "somebody still has it open"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name in (FILE, BESIDE):
            packed.writestr(zipfile.ZipInfo(name), path.with_name(name).read_bytes(), zipfile.ZIP_DEFLATED, 9)


def restore_file(archive: Path, directory: Path) -> str:
    """Unpack a SQLite store; give its URL."""
    directory.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(directory)
    for name in (FILE, BESIDE):
        (directory / name).chmod(0o600)  # as the product makes them
    return str(directory / FILE)


def keep_schema(url: str, archive: Path, server: PostgresServer) -> None:
    """Dump a schema as INSERT statements, and pack it."""
    place, schema = split_schema(url)
    program = str(server._programs() / "pg_dump")  # noqa: SLF001 - the one that knows this server's version
    command = [program, "--inserts", "--rows-per-insert=100", "--no-owner", "--no-privileges", f"--schema={schema}"]
    dumped = subprocess.run([*command, place], check=True, capture_output=True, text=True).stdout
    text = PSQL_ONLY.sub("", dumped).replace(str(schema), SCHEMA)
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr(zipfile.ZipInfo(DUMPED), text, zipfile.ZIP_DEFLATED, 9)


def restore_schema(archive: Path, server: str) -> str:
    """Fill a schema of its own on a server; give its URL."""
    with zipfile.ZipFile(archive) as packed:
        text = packed.read(DUMPED).decode()
    schema = fresh_schema()
    with connect(server) as connection:
        connection.execute(text.replace(SCHEMA, schema).encode())
    return in_schema(server, schema)
