"""The stand-ins for uv, where hidden tests run: they run what a test script's command names."""

import subprocess
from pathlib import Path

import pytest

from mcp_bench.servers.hidden_tests.tools import tools

pytestmark = pytest.mark.component


@pytest.mark.parametrize(
    "command",
    [
        "uvx -p 3.13 -w pytest==8.4.1 --with pytest-json-ctrf pytest",
        "uvx pytest@8.4.1",
        "uvx --index https://download.pytorch.org/whl/cpu --index-strategy unsafe-best-match -w torch pytest",
        "uvx --extra-index-url=https://example.org --find-links wheels --torch-backend cpu pytest",
        "uv tool run --from pytest pytest",
        "uv run pytest",
        "uv run --no-project --env-file .env --with-editable . -m pytest",
        "uv run --default-index https://example.org --no-group docs --only-group dev -- pytest",
    ],
)
def test_a_test_script_s_uv_runs_pytest(tmp_path: Path, command: str) -> None:
    for name in ("uv", "uvx"):
        (tmp_path / name).write_bytes(tools()[f"bin/{name}"])
    (tmp_path / "pytest").write_text('#!/bin/sh\necho "pytest $*"\n')
    for program in tmp_path.iterdir():
        program.chmod(0o755)
    path = f"{tmp_path}:/usr/bin:/bin"
    done = subprocess.run(
        [*command.split(), "/tests/test_outputs.py", "-rA"],
        env={"PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "pytest /tests/test_outputs.py -rA\n", done
