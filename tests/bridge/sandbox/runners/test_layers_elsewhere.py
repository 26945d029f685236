"""A layer is on another machine what it is here."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from mcp_bench.bridge.sandbox.runners.elsewhere import unpack
from mcp_bench.bridge.sandbox.runners.remote import archive, layer_name

pytestmark = pytest.mark.unit


def test_another_mode_is_another_layer(tmp_path: Path) -> None:
    """Otherwise, a machine that has the layer would go on with the mode as it was."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o644)
    before = layer_name(tmp_path)
    program.chmod(0o755)
    assert layer_name(tmp_path) != before


def test_links_and_modes_of_a_layer_arrive(tmp_path: Path) -> None:
    layer = tmp_path / "layer"
    (layer / "bin").mkdir(parents=True)
    (layer / "bin/python").symlink_to("/usr/bin/python3")
    (layer / "bin/up").symlink_to("../../other")
    (layer / "shared").mkdir()
    (layer / "shared").chmod(0o1777)
    place = tmp_path / "there/layer"
    unpack(place, archive({"": layer}))
    assert (place / "bin/python").readlink() == Path("/usr/bin/python3")
    assert (place / "bin/up").readlink() == Path("../../other")
    assert (place / "shared").stat().st_mode & 0o7777 == 0o1777


@pytest.mark.parametrize("name", ["../outside", "a/../../outside", "/outside"])
def test_a_file_outside_of_a_layer_is_refused(tmp_path: Path, name: str) -> None:
    name = f"{tmp_path}{name}" if name.startswith("/") else name
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(name))
    with pytest.raises(OSError, match="a layer has a file outside of it"):
        unpack(tmp_path / "layers/one", made.getvalue())
    assert not list(tmp_path.rglob("outside"))
