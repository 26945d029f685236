"""Keyed hashes that reveal changes of stored rows.

- Content: every row has a `tag`, a keyed hash of its table, its key and all its columns.
- Order: every frame has a `link`, a keyed hash of the link before it and its own tag.
- Completeness: when an episode ends, a row of `seals` lists the tags of its rows and the last link. When a
  run closes, another row does so for its episodes. A grade names the seal of the episode that it grades.

The hash is BLAKE2b with a key (RFC 7693), cut to 128 bits. Bodies enter by their SHA-256.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import Any

from mcp_bench.recorder.frames.body import CHUNK, LARGE
from mcp_bench.recorder.store.keys import Key

TAG_BYTES = 16
NO_LINK = b""
"""The link before the first frame of a run."""

KEYS = {
    "runs": "id",
    "episodes": "id",
    "frames": "id",
    "calls": "id",
    "messages": "position",
    "model_calls": "id",
    "flags": "id",
    "seals": "subject",
    "grades": "episode",
    "scans": "episode",
    "canaries": "place",
}
"""The key column of each table; for messages, unique within an episode."""
OF_EPISODE = ("calls", "messages", "model_calls", "flags")
"""Tables whose rows are final when their episode has ended. Flags can be without an episode."""

SEALED = ("grades", "scans", "canaries")
"""Tables of `grades.db`."""

_BODIES = frozenset({("frames", "body"), ("model_calls", "request"), ("model_calls", "response")})
_NOT_TAGGED = frozenset({"tag", "link"})


def _blob(value: object) -> dict[str, str]:
    assert isinstance(value, bytes)  # noqa: S101 - SQLite has no other type that JSON lacks
    return {"blob": value.hex()}


_CANONICAL = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_blob)


def tag(key: Key, table: str, values: Sequence[object]) -> bytes:
    """Return the tag of a row. Trailing NULLs do not count, so that a later version can add columns."""
    end = len(values)
    while end and values[end - 1] is None:
        end -= 1
    text = _CANONICAL.encode([table, *values[:end]])
    return blake2b(text.encode("utf-8", "surrogatepass"), key=key.secret, digest_size=TAG_BYTES).digest()


def link(key: Key, before: bytes, frame: bytes) -> bytes:
    """Return the link of the frame with the tag `frame`, after the frame with the link `before`."""
    return blake2b(before + frame, key=key.secret, digest_size=TAG_BYTES, person=b"link").digest()


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


def rows(db: sqlite3.Connection, table: str, where: str = "1", *parameters: object) -> Iterator[Row]:
    """Yield rows of a table, ordered by key. Large bodies are read piece by piece."""
    names = _columns(db, table)
    bodies = [place for place, name in enumerate(names) if (table, name) in _BODIES]
    picked = [_small(name) if place in bodies else f'"{name}"' for place, name in enumerate(names)]
    picked += [_is_large(names[place]) for place in bodies]
    number = "NULL" if table == "messages" else "rowid"
    order = "episode, position" if table == "messages" else KEYS[table]
    at = {name: place for place, name in enumerate(names)}
    tagged = [place for place, name in enumerate(names) if name not in _NOT_TAGGED]
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


def key_places(db: sqlite3.Connection, table: str) -> list[int]:
    """Return the positions of the key columns in `Row.values`."""
    tagged = [name for name in _columns(db, table) if name not in _NOT_TAGGED]
    keys = ("episode", "position") if table == "messages" else (KEYS[table],)
    return [tagged.index(name) for name in keys]


def _columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [str(name) for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]


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


def tag_rows(db: sqlite3.Connection, key: Key, table: str, where: str, *parameters: object) -> None:
    """Tag rows with their current values, within the transaction that changed them."""
    target = "episode = ? AND position = ?" if table == "messages" else "rowid = ?"
    tagged = [
        (tag(key, table, row.values), *((row.episode, row.key) if table == "messages" else (row.number,)))
        for row in rows(db, table, where, *parameters)
    ]
    db.executemany(f"UPDATE {table} SET tag = ? WHERE {target}", tagged)  # noqa: S608


def seal_episode(db: sqlite3.Connection, key: Key, episode: str) -> None:
    """Seal the rows of an episode, within the transaction that ends it."""
    contents: dict[str, object] = {"frames": _last_frame(db)}
    contents["episodes"] = tags(db, "episodes", "id = ?", episode)
    for table in OF_EPISODE:
        contents[table] = tags(db, table, "episode = ?", episode)
    put_seal(db, key, episode, contents)


def seal_run(db: sqlite3.Connection, key: Key) -> None:
    """Seal the rows of a run that closes."""
    for (run,) in db.execute("SELECT id FROM runs").fetchall():
        contents: dict[str, object] = {"frames": _last_frame(db)}
        contents |= {table: tags(db, table) for table in ("runs", "episodes")}
        contents["flags"] = tags(db, "flags", "episode IS NULL")
        contents["seals"] = tags(db, "seals", "subject <> ?", run)
        put_seal(db, key, run, contents)


def put_seal(db: sqlite3.Connection, key: Key, subject: str, contents: Mapping[str, object]) -> None:
    text = json.dumps(contents, separators=(",", ":"))
    sealed = (subject, text, tag(key, "seals", (subject, text)))
    db.execute("INSERT OR REPLACE INTO seals (subject, contents, tag) VALUES (?, ?, ?)", sealed)


def seal_tag(db: sqlite3.Connection, subject: str) -> bytes | None:
    row = db.execute("SELECT tag FROM seals WHERE subject = ?", [subject]).fetchone()
    return row[0] if row else None


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
