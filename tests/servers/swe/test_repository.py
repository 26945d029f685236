"""Files of a local clone at a commit."""

import subprocess
from pathlib import Path

import pytest

from mcp_bench.servers.swe.instance import SweError
from mcp_bench.servers.swe.repository import files_at

pytestmark = pytest.mark.component


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@localhost", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_clone_without_a_files_content_is_named(tmp_path: Path) -> None:
    """A partial clone has none until it is asked for, and here nothing is fetched."""
    git(tmp_path, "init", "-q")
    (tmp_path / "kept").write_text("kept\n")
    (tmp_path / "lost").write_text("lost\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "both")
    assert {path: file.data for path, file in files_at(tmp_path, "HEAD").items()} == {
        "kept": b"kept\n",
        "lost": b"lost\n",
    }
    digest = git(tmp_path, "rev-parse", "HEAD:lost")
    (tmp_path / ".git" / "objects" / digest[:2] / digest[2:]).unlink()
    with pytest.raises(SweError, match=f"lacks the content of lost .{digest}.: clone the whole repository"):
        files_at(tmp_path, "HEAD")
