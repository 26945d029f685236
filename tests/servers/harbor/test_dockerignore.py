"""Which files a `.dockerignore` file leaves out, by Docker's documentation of its format."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_bench.servers.harbor.dockerignore import ignored_in

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("lines", "ignored", "kept"),
    [
        ("", [], ["a", "a/b"]),
        ("# a\n\n/\n.\n!\n", [], ["a", "# a"]),
        ("a\n", ["a", "a/b", "a/b/c"], ["b/a", "ab"]),
        ("/a/b/\n", ["a/b", "a/b/c"], ["a/c", "b"]),
        ("*/temp*\n", ["a/temp", "a/temporary.txt"], ["temp", "a/b/temp"]),
        ("**/*.log\n", ["x.log", "a/b/x.log"], ["x.log.txt"]),
        ("a/**\n", ["a/b", "a/b/c"], ["b"]),
        ("temp?\n", ["tempa"], ["temp", "tempab"]),
        ("[ab].txt\n", ["a.txt"], ["c.txt"]),
        ("*.md\n!README*.md\nREADME-secret.md\n", ["a.md", "README-secret.md"], ["README.md"]),
        ("*\n!src\n", ["a", "b/c"], ["src", "src/x"]),
        ("\ufeffa.txt \n", ["a.txt"], ["a_txt"]),
    ],
)
def test_files_are_left_out(tmp_path: Path, lines: str, ignored: list[str], kept: list[str]) -> None:
    (tmp_path / ".dockerignore").write_text(lines, encoding="utf-8")
    found = ignored_in(tmp_path)
    assert [path for path in (*ignored, *kept) if found(path)] == ignored


def test_without_the_file_nothing_is_left_out(tmp_path: Path) -> None:
    assert not ignored_in(tmp_path)("a")
