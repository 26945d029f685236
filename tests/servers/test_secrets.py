"""The secret of a private split: what is wrong with its name or its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcp_bench.servers.errors import SecretError
from mcp_bench.servers.secret import made_secret, make_secret, variable

pytestmark = pytest.mark.unit


def test_a_file_in_place_of_the_folder_is_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(variable("mle"), str(tmp_path / "file" / "mle.secret"))
    with pytest.raises(SecretError, match=rf"cannot write .*: File exists: {tmp_path}/file$"):
        make_secret("mle")


def test_of_two_first_uses_at_once_the_second_keeps_the_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mle.secret"
    monkeypatch.setenv(variable("mle"), str(path))
    link = os.link

    def late(source: Path, place: Path) -> None:
        path.write_text("that of another process")
        link(source, place)

    monkeypatch.setattr(os, "link", late)
    assert made_secret("mle") is None
    assert path.read_text() == "that of another process"
