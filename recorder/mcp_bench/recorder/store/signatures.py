"""Keyed hashes that reveal changes of stored rows.

- Content: every row has a `tag`, a keyed hash of its table, its key and all its columns.
- Order: every frame has a `link`, a keyed hash of the link before it and its own tag.
- Completeness: when an episode ends, a row of `seals` lists the tags of its rows and the last link. When a
  run closes, another row does so for its episodes. A grade names the seal of the episode that it grades.

The hash is BLAKE2b with a key (RFC 7693), cut to 128 bits. Bodies enter by their SHA-256.

A tag has one of two formats. In format 1 it covers the table's name and the values in the order of the
columns; in format 2 also the columns' names. A run keeps the format that it began with, in its row in `runs`.
What the names mean is left to the schema: see `schema_check`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import Any

import orjson

from mcp_bench.recorder.errors import NewerDatabaseError, StorageError
from mcp_bench.recorder.frames.body import CHUNK, LARGE
from mcp_bench.recorder.store import schema
from mcp_bench.recorder.store.keys import Key
from mcp_bench.recorder.store.schema_check import columns

TAG_BYTES = 16
FORMAT = 2
"""Of the tags of new runs."""
NO_LINK = b""
"""The link before the first frame of a run."""

KEYS = {
    "runs": "id",
    "episodes": "id",
    "frames": "id",
    "calls": "id",
    "messages": "position",
    "model_calls": "id",
    "model_tokens": "call",
    "flags": "id",
    "seals": "subject",
    "grades": "episode",
    "scores": "episode",
    "rewards": "id",
    "asked": "id",
    "scans": "episode",
    "canaries": "place",
}
"""The key column of each table; for messages, unique within an episode."""
OF_EPISODE = ("calls", "messages", "model_calls", "model_tokens", "flags")
"""Tables whose rows are final when their episode has ended. Flags can be without an episode."""

SEALED = ("grades", "scores", "rewards", "asked", "scans", "canaries")
"""Tables of `grades.db`."""

_BODIES = frozenset({("frames", "body"), ("model_calls", "request"), ("model_calls", "response")})
_NOT_TAGGED = frozenset({"tag", "link"})


def _blob(value: object) -> dict[str, str]:
    assert isinstance(value, bytes)  # noqa: S101 - SQLite has no other type that JSON lacks
    return {"blob": value.hex()}


_CANONICAL = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_blob)


def canonical(values: Sequence[object]) -> bytes:
    """Return the values of a row as compact JSON, as Python's `json` writes it."""
    if float not in map(type, values):  # orjson spells these in another way
        try:
            return orjson.dumps(values, default=_blob)
        except TypeError:  # a lone surrogate, or an integer of more than 64 bits
            pass
    return _CANONICAL.encode(values).encode("utf-8", "surrogatepass")


class Signer:
    """Makes the tags and links of one run."""

    __slots__ = ("_heads", "_secret", "columns", "format", "key")

    def __init__(self, key: Key, form: int, columns: Mapping[str, Sequence[str]]) -> None:
        """Use `key` for tags of the format `form`.

        Args:
            key: of the run.
            form: 1 or 2.
            columns: of each table, in order.

        Raises:
            NewerDatabaseError: the format is unknown.
        """
        if form not in (1, FORMAT):
            raise NewerDatabaseError(
                f"its tags have the unknown format {form!r}: it was changed, or is from a newer mcp-bench"
            )
        self.key, self.format, self.columns = key, form, columns
        self._secret = key.secret
        self._heads = {table: _heads(table, names, form) for table, names in columns.items()}

    def tag(self, table: str, values: Sequence[object]) -> bytes:
        """Return the tag of a row. Trailing NULLs do not count, so that a later version can add columns."""
        end = len(values)
        while end and values[end - 1] is None:
            end -= 1
        text = canonical([self._heads[table][end], *values[:end]])
        return blake2b(text, key=self._secret, digest_size=TAG_BYTES).digest()

    def link(self, before: bytes, frame: bytes) -> bytes:
        """Return the link of the frame with the tag `frame`, after the frame with the link `before`."""
        return blake2b(before + frame, key=self._secret, digest_size=TAG_BYTES, person=b"link").digest()


def _heads(table: str, names: Sequence[str], form: int) -> list[str]:
    """Return what a tag covers besides values, by the number of values."""
    tagged = _tagged(names)
    if form == 1:
        return [table] * (len(tagged) + 1)
    return [f"{table}({','.join(tagged[:end])})" for end in range(len(tagged) + 1)]


def columns_of_run(
    recordings: Sequence[str] | None = None, grades: Sequence[str] | None = None
) -> Mapping[str, Sequence[str]]:
    """Return the columns of each table in databases with the named migrations, or with all.

    `seals` is the same in both.
    """
    tables = {**columns(schema.recordings, recordings), **columns(schema.grades, grades)}
    return {table: [column.name for column in found] for table, found in tables.items()}


def signer_of(db: sqlite3.Connection, key: Key) -> Signer:
    """Return the signer of the run in an open, migrated database: of its format, or of ours if it is new."""
    row = db.execute("SELECT format FROM runs ORDER BY created_us LIMIT 1").fetchone()
    return Signer(key, FORMAT if row is None else 1 if row[0] is None else row[0], columns_of_run())


def body_value(digest: bytes, *, is_text: bool) -> str:
    """Return the value that represents a body in its row's tag, from its SHA-256."""
    return f"{'text' if is_text else 'blob'}:{digest.hex()}"


@dataclass(slots=True)
class Row:
    """The values of a stored row that its tag covers. `number` is its rowid, if the table has rowids."""

    key: Any
    episode: str | None
    values: list[object]
    tag: bytes | None
    link: bytes | None
    number: int | None


def rows(
    db: sqlite3.Connection, names: Sequence[str], table: str, where: str = "1", *parameters: object
) -> Iterator[Row]:
    """Yield rows of a table, whose columns are `names`, by key. Large bodies are read piece by piece."""
    bodies = [place for place, name in enumerate(names) if (table, name) in _BODIES]
    picked = [_small(name) if place in bodies else f'"{name}"' for place, name in enumerate(names)]
    picked += [_is_large(names[place]) for place in bodies]
    number = "NULL" if table == "messages" else "rowid"
    order = "episode, position" if table == "messages" else KEYS[table]
    at = {name: place for place, name in enumerate(names)}
    tagged = [at[name] for name in _tagged(names)]
    for found in db.execute(
        f"SELECT {', '.join(picked)}, {number} FROM {table} WHERE {where} ORDER BY {order}",  # noqa: S608
        parameters,
    ):
        row = list(found)
        for place, is_large in zip(bodies, row[len(names) :], strict=False):
            if is_large:
                row[place] = _large_body(db, table, names[place], row[-1])
            elif isinstance(row[place], str | bytes):
                row[place] = _small_body(row[place])
        yield Row(
            key=row[at[KEYS[table]]],
            episode=row[at["episode"]] if "episode" in at else None,
            values=[row[place] for place in tagged],
            tag=row[at["tag"]] if "tag" in at else None,
            link=row[at["link"]] if "link" in at else None,
            number=row[-1],
        )


def key_places(names: Sequence[str], table: str) -> list[int]:
    """Return the positions of the key columns in `Row.values`."""
    tagged = _tagged(names)
    keys = ("episode", "position") if table == "messages" else (KEYS[table],)
    return [tagged.index(name) for name in keys]


def _tagged(names: Sequence[str]) -> list[str]:
    return [name for name in names if name not in _NOT_TAGGED]


def _is_large(column: str) -> str:
    return f"(typeof({column}) = 'blob' AND length({column}) >= {LARGE})"


def _small(column: str) -> str:
    return f"CASE WHEN {_is_large(column)} THEN NULL ELSE {column} END"


def _small_body(body: str | bytes) -> str:
    if isinstance(body, str):
        return body_value(sha256(body.encode("utf-8", "surrogateescape")).digest(), is_text=True)
    return body_value(sha256(body).digest(), is_text=False)


def _large_body(db: sqlite3.Connection, table: str, column: str, number: int) -> str:
    hashed = sha256()
    with db.blobopen(table, column, number, readonly=True) as blob:
        while chunk := blob.read(CHUNK):
            hashed.update(chunk)
    return body_value(hashed.digest(), is_text=False)


def tag_rows(db: sqlite3.Connection, signer: Signer, table: str, where: str, *parameters: object) -> None:
    """Tag rows with their current values, within the transaction that changed them."""
    target = "episode = ? AND position = ?" if table == "messages" else "rowid = ?"
    tagged = [
        (signer.tag(table, row.values), *((row.episode, row.key) if table == "messages" else (row.number,)))
        for row in rows(db, signer.columns[table], table, where, *parameters)
    ]
    db.executemany(f"UPDATE {table} SET tag = ? WHERE {target}", tagged)  # noqa: S608


def refuse_changed_rows(
    db: sqlite3.Connection, signer: Signer, table: str, where: str, *parameters: object
) -> None:
    """Raise StorageError if a row was changed without the key: a new tag would hide that."""
    for row in rows(db, signer.columns[table], table, where, *parameters):
        if row.tag != signer.tag(table, row.values):
            raise StorageError(
                f"the row {row.key} of {table} was changed after it was stored, so nothing is added to its "
                "run: see `mcp-bench verify`"
            )


def seal_episode(db: sqlite3.Connection, signer: Signer, episode: str, after: int | None) -> None:
    """Seal the rows of an episode, within the transaction that ends it.

    Args:
        db: the recordings.
        signer: of the run.
        episode: its id.
        after: a frame behind which all of its frames are, so that they are found; None if it is not known.
    """
    contents: dict[str, object] = {"frames": _last_frame(db) + ([] if after is None else [after])}
    contents["episodes"] = tags(db, "episodes", "id = ?", episode)
    for table in OF_EPISODE:
        contents[table] = tags(db, table, "episode = ?", episode)
    put_seal(db, signer, episode, contents)


def seal_run(db: sqlite3.Connection, signer: Signer) -> None:
    """Seal the rows of a run that closes."""
    for (run,) in db.execute("SELECT id FROM runs").fetchall():
        contents: dict[str, object] = {"frames": _last_frame(db)}
        contents |= {table: tags(db, table) for table in ("runs", "episodes")}
        contents["flags"] = tags(db, "flags", "episode IS NULL")
        contents["seals"] = tags(db, "seals", "subject <> ?", run)
        put_seal(db, signer, run, contents)


def put_seal(db: sqlite3.Connection, signer: Signer, subject: str, contents: Mapping[str, object]) -> bytes:
    """Store a seal and return its tag."""
    text = json.dumps(contents, separators=(",", ":"))
    tagged = signer.tag("seals", (subject, text))
    sealed = (subject, text, tagged)
    db.execute("INSERT OR REPLACE INTO seals (subject, contents, tag) VALUES (?, ?, ?)", sealed)
    return tagged


def seal_tag(db: sqlite3.Connection, subject: str) -> bytes | None:
    row = db.execute("SELECT tag FROM seals WHERE subject = ?", [subject]).fetchone()
    return row[0] if row else None


def run_is_sealed(db: sqlite3.Connection) -> bool:
    """Return whether the recordings have the seal of their run, which follows its last row."""
    return db.execute("SELECT 1 FROM seals WHERE subject IN (SELECT id FROM runs)").fetchone() is not None


def tags(db: sqlite3.Connection, table: str, where: str = "1", *parameters: object) -> dict[str, str]:
    """Return the stored tags of rows, as hexadecimal digits, by key."""
    found = db.execute(
        f"SELECT {KEYS[table]}, hex(tag) FROM {table} WHERE {where} ORDER BY 1",  # noqa: S608
        parameters,
    )
    return {str(key): tag_.lower() for key, tag_ in found}


def _last_frame(db: sqlite3.Connection) -> list[object]:
    row = db.execute("SELECT id, link FROM frames ORDER BY id DESC LIMIT 1").fetchone()
    return [row[0], row[1].hex()] if row else [0, NO_LINK.hex()]
