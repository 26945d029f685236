"""The secret of a private split: what is wrong with its name or its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_bench.servers.errors import SecretError
from mcp_bench.servers.secret import make_secret, variable

pytestmark = pytest.mark.unit


def test_a_file_in_place_of_the_folder_is_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(variable("mle"), str(tmp_path / "file" / "mle.secret"))
    with pytest.raises(SecretError, match=rf"cannot write .*: File exists: {tmp_path}/file$"):
        make_secret("mle")
