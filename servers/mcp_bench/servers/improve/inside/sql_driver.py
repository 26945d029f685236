"""Runs in the sandbox: answers questions with SQL queries of the target over a SQLite database.

The target is a text with sections: `-- setup` is run once, and each `-- query NAME` answers its questions.
"""

import re
import sqlite3
import sys
from typing import Any

from mcp_bench.servers.improve.inside import driver


class Queries:
    """What the driver asks: `solve`, with names of queries and their parameters."""

    def __init__(self, text: str, data: str) -> None:
        self.database = sqlite3.connect(":memory:")
        with open(data, encoding="utf-8") as file:
            self.database.executescript(file.read())
        parts = re.split(r"^-- *(setup|query +\w+) *$", text, flags=re.MULTILINE)
        self.sections = {
            " ".join(head.split()): body for head, body in zip(parts[1::2], parts[2::2], strict=True)
        }
        self.database.executescript(self.sections.get("setup", ""))

    def solve(self, *questions: "tuple[str, dict[str, Any]]") -> "list[list[list[Any]]]":
        return [self.rows(name, parameters) for name, parameters in questions]

    def rows(self, name: str, parameters: "dict[str, Any]") -> "list[list[Any]]":
        found = self.database.execute(self.sections[f"query {name}"].strip().rstrip(";"), parameters)
        return [list(row) for row in found]


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        driver.serve(lambda: Queries(file.read(), sys.argv[2]))
