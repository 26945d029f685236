"""What a YAML text means as a whole is limited: another person or an agent may have written it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.yaml_file import load_yaml, read_yaml

pytestmark = pytest.mark.unit

TIMES, LEVELS = 10, 6


def growing(first: str, level: str) -> str:
    """Return lines that each name the line before ten times."""
    lines = [f"a0: &a0 {first}"]
    for number in range(1, LEVELS):
        names = ", ".join([f"*a{number - 1}"] * TIMES)
        lines.append(f"a{number}: &a{number} {level.format(names)}")
    return "\n".join(lines)


BOMBS = {
    "lists": growing("[x]", "[{}]"),
    "mappings that are merged": growing("{x: 1}", "{{<<: [{}]}}"),
    "a part that is named within itself": "a: &a [*a]",
}


def from_text(text: str, _: Path) -> Any:
    return load_yaml(text)


def from_file(text: str, folder: Path) -> Any:
    (folder / "file.yaml").write_text(text)
    return read_yaml(folder / "file.yaml").content


@pytest.mark.parametrize("read", [from_text, from_file])
@pytest.mark.parametrize("what", BOMBS)
def test_a_text_that_means_far_more_than_it_says_is_refused(
    tmp_path: Path, what: str, read: Callable[[str, Path], Any]
) -> None:
    assert len(BOMBS[what]) < 400
    with pytest.raises((yaml.YAMLError, WrongUseError), match="more than 100,000 values"):
        read(BOMBS[what], tmp_path)


@pytest.mark.parametrize("read", [from_text, from_file])
def test_a_part_can_be_named_again(tmp_path: Path, read: Callable[[str, Path], Any]) -> None:
    found = read("a: &a {x: [1, 2]}\nb: *a\nc: {<<: *a, y: 3}\n", tmp_path)
    assert found == {"a": {"x": [1, 2]}, "b": {"x": [1, 2]}, "c": {"x": [1, 2], "y": 3}}


def test_an_empty_text_means_nothing() -> None:
    assert load_yaml("# nothing") is None
