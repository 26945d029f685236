"""The image of a sandbox's base: one that is here, or made of an archive, a folder, or the machine's /usr."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from mcp_bench.bridge.sandbox import skeleton
from mcp_bench.bridge.sandbox.containers.program import Program, call, environment, found, last_words
from mcp_bench.bridge.sandbox.machine import masked
from mcp_bench.servers.sandbox import HOST_BASE, IMAGE_BASE, SandboxError

NAME = "mcp-bench-base"
LABEL = "mcp-bench"
TAR = ["tar", "--numeric-owner", "--sort=name", "-c", "-f", "-"]


def image(program: Program, base: str) -> str:
    """Return the name of a base's image, which is made where that is needed.

    Raises:
        SandboxError: there is no such base, or it cannot be imported.
    """
    if base.startswith(IMAGE_BASE):
        name = base.removeprefix(IMAGE_BASE)
        if not there(program, name):
            raise SandboxError(
                f"{program.name} has no image {name}, and sandboxes download none: {program.name} pull {name}"
            )
        return name
    if base == HOST_BASE:
        return _host(program)
    path = Path(base).resolve()
    if path.is_file():
        status = path.stat()
        key = _key(str(path), status.st_size, status.st_mtime_ns)
        return _imported(program, f"{NAME}:archive-{key}", str(path))
    if not path.is_dir():
        raise SandboxError(
            f"the sandbox's base {base} is neither a folder nor an archive. An image is {IMAGE_BASE}NAME"
        )
    return _imported(program, f"{NAME}:folder-{_state(str(path))}", str(path))


def there(program: Program, name: str) -> bool:
    return call(program, "image", "inspect", name).returncode == 0


@cache
def variables(program: Program, name: str) -> dict[str, str]:
    """Return the environment that an image gives its programs."""
    done = call(program, "image", "inspect", "--format", "{{json .Config.Env}}", name)
    try:
        words: list[str] = json.loads(done.stdout) or []
    except ValueError:
        return {}
    return dict(word.split("=", 1) for word in words if "=" in word)


def host_mounts() -> tuple[dict[str, str], tuple[str, ...]]:
    """Return what the base `host` mounts of this machine, and the folders of it to leave empty."""
    places = ("/usr", *(f"/etc/{name}" for name in skeleton.FROM_MACHINE))
    return {place: os.path.realpath(place) for place in places if Path(place).exists()}, masked()


@cache
def _host(program: Program) -> str:
    with tempfile.TemporaryDirectory() as folder:
        skeleton.make(folder, network=False)
        words = ["--mode=u+rwX,go+rX", "--mtime=@0", "--owner=0", "--group=0", "-C", folder, "."]
        tar = subprocess.run([*TAR, *words], capture_output=True, check=True).stdout
    name = f"{NAME}:host-{_key(tar)}"
    if not there(program, name):
        done = call(program, "import", f"--change=LABEL {LABEL}=base", "-", name, feed=tar)
        if done.returncode:
            raise SandboxError(f"{program.name} cannot import an image: {last_words(done.stderr)}")
    return name


@cache
def _imported(program: Program, name: str, path: str) -> str:
    """Import a folder or an archive, if that was not done before."""
    if there(program, name):
        return name
    words = [found(program), "import", f"--change=LABEL {LABEL}=base"]
    if Path(path).is_file():
        done = subprocess.run([*words, path, name], capture_output=True, env=environment(), check=False)
    else:
        with subprocess.Popen([*TAR, "-C", path, "."], stdout=subprocess.PIPE) as tar:
            done = subprocess.run(
                [*words, "-", name], stdin=tar.stdout, capture_output=True, env=environment(), check=False
            )
    if done.returncode:
        raise SandboxError(f"{program.name} cannot import {path}: {last_words(done.stderr)}")
    return name


def _state(folder: str) -> str:
    """Return a digest of a folder's names, modes, sizes and times, without reading its files."""
    found = hashlib.sha256(folder.encode())
    for place, folders, names, descriptor in os.fwalk(folder):
        folders.sort()
        for name in sorted((*folders, *names)):
            one = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            found.update(
                f"{place}/{name} {one.st_mode} {one.st_size} {one.st_mtime_ns}\n".encode(
                    "utf-8", "surrogateescape"
                )
            )
    return found.hexdigest()[:16]


def _key(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
