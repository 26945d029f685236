"""A database as a writer leaves it that is killed within a transaction: with a rollback journal beside it."""

from __future__ import annotations

import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

PAGE = 4096


def leave_half_written(path: Path, naming: Path | None = None) -> None:
    """Begin a transaction and leave its journal, which SQLite rolls back when it opens the file for writing.

    Args:
        path: the database.
        naming: what the journal names as a journal of several databases. SQLite deletes that afterwards.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA cache_size = 1")  # pages are written before the end
        db.execute("BEGIN EXCLUSIVE")
        db.execute("CREATE TABLE half_written (x)")
        db.executemany("INSERT INTO half_written VALUES (zeroblob(?))", [(PAGE,)] * 100)
        copies = [shutil.copyfile(file, f"{file}.copy") for file in (path, f"{path}-journal")]
        db.execute("ROLLBACK")
    for copy in map(Path, copies):
        copy.rename(copy.with_suffix(""))
    if naming is not None:
        name = str(naming).encode()
        with Path(f"{path}-journal").open("ab") as journal:  # https://www.sqlite.org/fileformat2.html
            journal.write(struct.pack(">I", (1 << 30) // PAGE + 1) + name)
            journal.write(struct.pack(">II", len(name), sum(name)) + bytes.fromhex("d9d505f920a163d7"))
