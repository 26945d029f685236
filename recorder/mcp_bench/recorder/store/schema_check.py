"""Compare the schema of a database with what its migrations make.

The tags of rows say that values are as they were stored. The schema says what they mean: a renamed column, a
generated one, a trigger or a view changes what a query returns and leaves every tag genuine. So nothing is
read from a database whose schema is not exactly that of its migrations, applied one after the other to a new
database.

SQLite keeps the schema as SQL text in `sqlite_master` and parses it when it opens a file
(https://www.sqlite.org/schematab.html), so equal texts mean equal columns (hidden and generated ones
included), constraints, defaults, collations, views, indexes and triggers. Texts are compared as tokens,
since versions differ in comments and spaces.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Literal

from mcp_bench.recorder.store.schema import Schema

MIGRATIONS_TABLE = (
    'CREATE TABLE "_sqlite_migrations" ("id" INTEGER PRIMARY KEY, "migration_set" TEXT, "name" TEXT,'
    ' "applied_at" TEXT)',
    'CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"'
    ' ON "_sqlite_migrations" ("migration_set", "name")',
)
"""As sqlite-utils creates it."""

# as SQLite reads them: https://www.sqlite.org/lang_comment.html, https://www.sqlite.org/lang_keywords.html
_TOKEN = re.compile(
    r"""(?P<left_out>[ \t\n\f\r]+|--[^\n]*|/\*.*?(?:\*/|\Z))"""
    r"""|'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^]]*\]|[\w$.]+|.""",
    re.DOTALL,
)

_Object = tuple[str, str, str, object]
"""Type, name, table and SQL text of an object, as in `sqlite_master`."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One object of a schema that is not as the migrations make it."""

    kind: str
    """`table`, `view`, `index` or `trigger`."""
    name: str
    change: Literal["edited", "removed", "added"]

    def __str__(self) -> str:
        return f"the {self.kind} {self.name} was {self.change}"


_MIGRATIONS_EDITED = Difference("table", "_sqlite_migrations", "edited")


def differences(connection: sqlite3.Connection, schema: Schema) -> tuple[Difference, ...]:
    """Return the differences between a database and its applied migrations; none for an empty file."""
    with _one_moment(connection):
        found = tuple(
            tuple(row)
            for row in connection.execute("SELECT type, name, tbl_name, sql FROM main.sqlite_master")
        )
        if not found:
            return ()
        if not _contains(found, _made(MIGRATIONS_TABLE)):
            return (_MIGRATIONS_EDITED,)
        applied = [
            tuple(row)
            for row in connection.execute("SELECT migration_set, name FROM _sqlite_migrations ORDER BY id")
        ]
    names = list(schema.migrations)[: len(applied)]
    if not applied or applied != [(schema.name, name) for name in names]:
        return (_MIGRATIONS_EDITED,)
    return _compared(found, _made(statements(schema, names)))


def statements(schema: Schema, names: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return the SQL that makes a new database with the named migrations, or with all."""
    picked = schema.migrations if names is None else names
    return (*MIGRATIONS_TABLE, *chain.from_iterable(schema.migrations[name] for name in picked))


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    """As declared."""
    in_key: bool
    """Whether it is part of the primary key."""


def columns(schema: Schema, applied: Collection[str] | None = None) -> Mapping[str, tuple[Column, ...]]:
    """Return the columns of each table after the named migrations, or after all, in the order of creation."""
    names = None if applied is None else [name for name in schema.migrations if name in applied]
    return _columns(statements(schema, names))


@contextmanager
def _one_moment(connection: sqlite3.Connection) -> Iterator[None]:
    """Read several tables as of one moment, also while another process migrates the database."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


@lru_cache(maxsize=32)
def _made(sql: tuple[str, ...]) -> tuple[_Object, ...]:
    with closing(_new(sql)) as db:
        return tuple(db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


@lru_cache(maxsize=32)
def _columns(sql: tuple[str, ...]) -> Mapping[str, tuple[Column, ...]]:
    with closing(_new(sql)) as db:
        tables = db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rootpage"
        ).fetchall()
        return {
            table: tuple(
                Column(name, kind, bool(place))
                for _, name, kind, _, _, place in db.execute(f'PRAGMA table_info("{table}")')
            )
            for (table,) in tables
            if table != "_sqlite_migrations"
        }


def _new(sql: tuple[str, ...]) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:")
    for statement in sql:
        db.execute(statement)
    return db


# the runs of a store have the same few schemas
@lru_cache(maxsize=128)
def _compared(found: tuple[_Object, ...], made: tuple[_Object, ...]) -> tuple[Difference, ...]:
    is_, should = Counter(map(_normal, found)), Counter(map(_normal, made))
    extra, lacking = list((is_ - should).elements()), list((should - is_).elements())
    added, removed = ({(str(kind), str(name)) for kind, name, *_ in some} for some in (extra, lacking))
    listed = [Difference(*one, "edited") for one in sorted(added & removed)]
    listed += [Difference(*one, "removed") for one in sorted(removed - added)]
    return (*listed, *(Difference(*one, "added") for one in sorted(added - removed)))


@lru_cache(maxsize=128)
def _contains(found: tuple[_Object, ...], made: tuple[_Object, ...]) -> bool:
    return set(map(_normal, made)) <= set(map(_normal, found))


def _normal(one: _Object) -> tuple[object, ...]:
    kind, name, table, sql = one
    return (kind, name, table, tokens(sql) if isinstance(sql, str) else sql)


@lru_cache(maxsize=512)
def tokens(sql: str) -> tuple[str, ...]:
    """Return the tokens of an SQL text, without comments and white space."""
    return tuple(found.group() for found in _TOKEN.finditer(sql) if found.lastgroup is None)
