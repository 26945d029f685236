"""The tables of docs/architecture.md are true: every room is in a row, and imports only rows above its own."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FOLDERS = ("servers", "recorder", "plugins", "clients", "bridge", "trainer")
MAY_IMPORT = {
    "servers": set[str](),
    "recorder": {"servers"},
    "plugins": {"servers", "recorder"},
    "clients": set[str](),
    "bridge": {"servers", "recorder", "plugins", "clients", "api"},
    "trainer": {"servers", "recorder", "plugins", "clients", "bridge", "api"},
}
"""The Python API, `mcp_bench.api`, is part of bridge/."""


@cache
def imported(file: Path) -> tuple[str, ...]:
    """Return the modules of this project that a file imports, at its top or later."""
    found = list[str]()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mcp_bench."):
            package = str(node.module)
            one_room = package.count(".") > 1
            found += [package] if one_room else [f"{package}.{name.name}" for name in node.names]
        elif isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name.startswith("mcp_bench.")]
    return tuple(found)


def rows(folder: str) -> list[set[str]]:
    """Return the rooms of each row of a folder's table."""
    table = PAGE.partition(f"Inside `{folder}/`, from the bottom up")[2].partition("\n|---|---|\n")[2]
    lines = table.partition("\n\n")[0].splitlines()
    return [set(re.findall(r"`(\w+)/`", line.split("|")[1])) for line in lines]


@pytest.mark.parametrize("folder", FOLDERS)
def test_folders_import_one_way(folder: str) -> None:
    below = MAY_IMPORT[folder] | {folder, *(["api"] if folder == "bridge" else [])}
    for file in (ROOT / folder / "mcp_bench").rglob("*.py"):
        for module in imported(file):
            assert module.split(".")[1] in below, f"{file.relative_to(ROOT)} imports {module}"


@pytest.mark.parametrize("folder", ["servers", "recorder", "bridge", "trainer"])
def test_rooms_are_in_the_order_of_the_table(folder: str) -> None:
    base = ROOT / folder / "mcp_bench" / folder
    floors = {room: floor for floor, of_row in enumerate(rows(folder)) for room in of_row}
    rooms = {path.name for path in base.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert set(floors) == rooms
    for room in rooms:
        for file in (base / room).rglob("*.py"):
            for module in imported(file):
                parts = module.split(".")
                if parts[1] != folder or parts[2:3] in ([], [room]) or parts[2] not in floors:
                    continue
                assert floors[parts[2]] <= floors[room], f"{file.relative_to(ROOT)} imports {module}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_are_short_and_formatted(folder: str) -> None:
    for file in (ROOT / folder / "mcp_bench").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert text.count("\n") <= 400, file
        assert "fmt: skip" not in text, file


def test_files_of_tests_are_short() -> None:
    for file in (ROOT / "tests").rglob("*.py"):
        if "node_modules" not in file.parts:
            assert file.read_text(encoding="utf-8").count("\n") <= 400, file


def test_no_sandbox_knows_on_which_machine_it_is_started() -> None:
    sandbox = ROOT / "bridge" / "mcp_bench" / "bridge" / "sandbox"
    for file in {*sandbox.rglob("*.py")} - {*(sandbox / "runners").iterdir()}:
        for module in imported(file):
            assert not module.startswith("mcp_bench.bridge.sandbox.runners"), file
