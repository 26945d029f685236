"""The secret of a private split: what is wrong with its name or its place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_bench.servers.contracts import Benchmark
from mcp_bench.servers.errors import SecretError
from mcp_bench.servers.registry import load
from mcp_bench.servers.secret import made_secret, main, make_secret, variable

pytestmark = pytest.mark.component


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


@pytest.mark.parametrize(
    ("arguments", "named", "says"),
    [
        (["saasworlds"], "", "Error: unknown benchmark 'saasworlds' (did you mean saasworld"),
        (["a/b"], "", "Error: unknown benchmark 'a/b'"),
        (["swe"], "", "Error: benchmark 'swe' has no private split, so it needs no secret"),
        (["--help"], "", "Usage: python -m mcp_bench.servers.secret BENCHMARK"),
        ([], "", "Usage: python -m mcp_bench.servers.secret BENCHMARK"),
        (["mle"], "~nobody-has-this-name/x", "Error: ~nobody-has-this-name/x: ~nobody-has-this-name has no"),
    ],
)
def test_a_wrong_command_makes_no_secret(tmp_path: Path, arguments: list[str], named: str, says: str) -> None:
    command = [sys.executable, "-m", "mcp_bench.servers.secret", *arguments]
    environment = {"PATH": os.environ["PATH"], "MCP_BENCH_HOME": str(tmp_path), variable("mle"): named}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith(says), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_api_of_saasworld_has_the_secret_of_saasworld(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path))
    main(["saasworld-api"])
    api: Benchmark = load("benchmark", "saasworld-api")
    assert next(iter(api.tasks("private"))).split == "private"
