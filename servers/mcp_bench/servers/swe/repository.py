"""A local clone: its files at a commit, and after a patch. Nothing in the clone is changed."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from mcp_bench.servers.swe.instance import SweError

GIT = ("git", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*", "-c", "core.autocrlf=false")
LINK = 0o120000
MODULE = 0o160000


class File(NamedTuple):
    mode: int
    """As git has it: 0o100644, 0o100755, or `LINK`, whose data is the target."""
    data: bytes


Tree = Mapping[str, File]
"""A repository's files by path."""


def files_at(clone: Path, commit: str) -> dict[str, File]:
    """Return the files of a commit.

    Raises:
        SweError: there is no such clone or commit, or the clone lacks a file of it.
    """
    if not clone.is_dir():
        raise SweError(f"there is no clone in {clone}. Make one with `git clone --no-checkout URL {clone}`")
    return _tree(clone, commit, {})


def patched(clone: Path, commit: str, patch: str) -> dict[str, File]:
    """Return the files of a commit after a patch.

    Raises:
        SweError: the patch does not fit.
    """
    if not patch.strip():
        return files_at(clone, commit)
    with tempfile.TemporaryDirectory(prefix="mcp-bench-swe-") as scratch:
        objects = _git(clone, {}, "rev-parse", "--git-path", "objects").decode().strip()
        env = {  # what is made goes into the scratch folder
            "GIT_INDEX_FILE": f"{scratch}/index",
            "GIT_OBJECT_DIRECTORY": scratch,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str((clone / objects).resolve()),
        }
        _git(clone, env, "read-tree", commit)
        text = patch if patch.endswith("\n") else patch + "\n"
        _git(clone, env, "apply", "--cached", "--whitespace=nowarn", "-", given=text.encode())
        tree = _git(clone, env, "write-tree").decode().strip()
        return _tree(clone, tree, env)


def _tree(clone: Path, name: str, env: Mapping[str, str]) -> dict[str, File]:
    listed: list[tuple[int, str, str]] = []
    for line in _git(clone, env, "ls-tree", "-r", "-z", "--full-tree", name).split(b"\0")[:-1]:
        head, _, place = line.partition(b"\t")
        octal, _, digest = head.decode().split()
        if (mode := int(octal, 8)) != MODULE:
            listed.append((mode, digest, os.fsdecode(place)))
    names = "".join(f"{digest}\n" for _, digest, _ in listed)
    rest = memoryview(_git(clone, env, "cat-file", "--batch", given=names.encode()))
    found = {}
    for mode, digest, path in listed:
        end = bytes(rest[:200]).index(b"\n")
        *_, size_or_word = bytes(rest[:end]).split()
        if size_or_word == b"missing":
            raise SweError(f"{clone} lacks the content of {path} ({digest}): clone the whole repository")
        size = int(size_or_word)
        found[path] = File(mode, bytes(rest[end + 1 : end + 1 + size]))
        rest = rest[end + 2 + size :]
    return found


def _git(clone: Path, env: Mapping[str, str], *words: str, given: bytes = b"") -> bytes:
    environ = {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/nonexistent", "LANG": "C.UTF-8", **env}
    try:
        done = subprocess.run(
            [*GIT, "-C", str(clone), *words], input=given, capture_output=True, check=False, env=environ
        )
    except OSError as error:
        raise SweError(f"git cannot be started: {error.strerror}. Install it") from error
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise SweError(f"{clone}: git {words[0]}: {reason}")
    return done.stdout


def archive(tree: Tree) -> bytes:
    """Return files as a tar archive, whose entries belong to root."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for path, file in sorted(tree.items()):
            entry = tarfile.TarInfo(path)
            if file.mode == LINK:
                entry.type, entry.linkname = tarfile.SYMTYPE, os.fsdecode(file.data)
                tar.addfile(entry)
            else:
                entry.mode, entry.size = file.mode & 0o777, len(file.data)
                tar.addfile(entry, io.BytesIO(file.data))
    return target.getvalue()
