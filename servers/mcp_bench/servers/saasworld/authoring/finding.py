"""A look that must find exactly one record, for task families with a single look."""

from __future__ import annotations

from mcp_bench.servers.saasworld.authoring.builder import Builder
from mcp_bench.servers.saasworld.engine.seeder import FamilyError
from mcp_bench.servers.saasworld.engine.state import Record


def find(b: Builder, tool: str, **arguments: object) -> Record:
    """Look for a record and return it as a list shows it.

    Raises:
        FamilyError: none or several were found, so that another draw has to give the task.
    """
    items: list[Record] = b.look(tool, **arguments)["items"]
    if len(items) != 1:
        raise FamilyError(f"{tool}({arguments}) finds {len(items)} records, not one")
    return items[0]
