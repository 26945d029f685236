"""Our reader of entry points finds what `importlib.metadata` finds."""

from __future__ import annotations

import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from mcp_bench.servers.entry_points import EntryPoint, entry_points

pytestmark = pytest.mark.unit

GROUPS = sorted(metadata.entry_points().groups)


def add(place: Path, package: str, text: str) -> None:
    (place / package).mkdir(parents=True)
    name = package.partition("-")[0].removesuffix(".egg-info")
    (place / package / "METADATA").write_text(f"Name: {name}\nVersion: 1\n")
    (place / package / "entry_points.txt").write_text(text)


def pairs(found: object) -> list[tuple[str, str]]:
    return sorted((point.name, point.value) for point in found)  # type: ignore[attr-defined]


@pytest.mark.parametrize("group", GROUPS)
def test_what_is_installed_is_found(group: str) -> None:
    assert pairs(entry_points(group)) == pairs(metadata.entry_points(group=group))


def test_odd_packages_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    add(
        first,
        "My.Kit-2.dist-info",
        "[other]\nx = y:z\n\n# a comment\n [g] \n a=os.path:join \nb = os:sep [x]\n",
    )
    add(second, "my_kit-1.dist-info", "[g]\nhidden = a:b\n")
    add(second, "old.egg-info", "[g]\nold = os\n")
    (second / "empty-1.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(first), str(second), str(tmp_path / "missing")])
    found = entry_points("g")
    assert pairs(found) == pairs(metadata.entry_points(group="g"))
    assert [name for name, _ in pairs(found)] == ["a", "b", "old"]
    import os

    assert {point.name: point.load() for point in found} == {"a": os.path.join, "b": os.sep, "old": os}


def test_packages_in_a_zip_file_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "kit.zip", "w") as file:
        file.writestr("kit-1.dist-info/METADATA", "Name: kit\nVersion: 1\n")
        file.writestr("kit-1.dist-info/entry_points.txt", "[g]\na = os:sep\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "kit.zip")])
    assert entry_points("g") == [EntryPoint("a", "os:sep")]
