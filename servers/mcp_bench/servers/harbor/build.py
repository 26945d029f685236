"""Follow a Dockerfile in a sandbox."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Set
from hashlib import sha256
from pathlib import Path, PurePosixPath
from posixpath import join

from mcp_bench.servers.errors import SandboxError
from mcp_bench.servers.harbor.dockerfile import Image, Step, copy_words
from mcp_bench.servers.harbor.dockerignore import ignored_in
from mcp_bench.servers.harbor.folder import OWN_FILES, TaskFolder
from mcp_bench.servers.sandbox import HOST_BASE, Sandbox

RUN_SECONDS = 300.0
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
ARCHIVE = "/run/mcp-bench-archive"
COPIED = "/run/mcp-bench-copied"
SHOWN = 300
SCHEME = "2"
"""Changes with the way Dockerfiles are followed."""
SYSTEM = ("/usr/bin", "/usr/lib", "/usr/local/bin", "/var/lib/dpkg/status")
"""They change when this machine's programs do."""


async def build(sandbox: Sandbox, task: TaskFolder, image: Image, key: str) -> None:
    """Make the files of an image in a new sandbox; they belong to its base afterwards.

    Args:
        key: of these files (`key_of`), by which they are kept. A sandbox that began with them has them.

    Raises:
        SandboxError: an instruction failed.
    """
    if sandbox.enforced.kept:
        return
    for step in image.steps:
        match step.kind:
            case "WORKDIR":
                await done(sandbox, f"mkdir -p {shlex.quote(step.text)}", step)
            case "RUN":
                exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in step.env.items())
                await done(sandbox, f"({exports}cd {shlex.quote(step.workdir)}\n{step.text}\n)", step)
            case _:
                await copy(sandbox, task.context.resolve(), step, _own(task))
    if image.steps:
        await sandbox.commit(keep=key)


def key_of(task: TaskFolder, image: Image, base: str) -> str:
    """Return a name of the files that `build` makes: it follows from all that they follow from.

    That is the base, the instructions with their variables, and what they copy.
    """
    root = task.context.resolve()
    made = sha256(repr((SCHEME, base, *map(_state, SYSTEM if base == HOST_BASE else (base,)))).encode())
    for step in image.steps:
        made.update(repr((step.kind, step.text, step.workdir, sorted(step.env.items()))).encode())
        if step.kind in ("COPY", "ADD"):
            for source in copy_words(step.text)[1]:
                for one in matching(root, source):
                    for file, name in files(one, root, _own(task)):
                        data = file.read_bytes()
                        made.update(repr((name, file.stat().st_mode, len(data))).encode() + data)
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', task.id).strip('-')[:60]}-{made.hexdigest()}".lstrip("-")


def _state(path: str) -> tuple[int, int]:
    try:
        found = Path(path).stat()
    except OSError:
        return 0, 0
    return found.st_ino, found.st_mtime_ns


def _own(task: TaskFolder) -> Set[str]:
    """Return what of a task's folder is never copied."""
    return OWN_FILES if task.format == "terminal-bench" else frozenset[str]()


async def done(sandbox: Sandbox, command: str, step: Step) -> None:
    result = await sandbox.run(command, seconds=RUN_SECONDS)
    if result.code:
        raise SandboxError(f"{step.kind} {step.text[:SHOWN]}: {result.output[-SHOWN:].strip()}")


async def copy(sandbox: Sandbox, root: Path, step: Step, own: Set[str]) -> None:
    """Follow COPY or ADD. The task's tests and solution are never copied.

    What an option `chown` names gets what is copied, and not what was there.

    Args:
        root: the context, resolved.
        own: what in it is never copied.

    Raises:
        SandboxError: a source is missing, or lies outside of the context.
    """
    options, sources, target = copy_words(step.text)
    place = join(step.workdir, target)
    owned = f"xargs -0r chown {shlex.quote(options.get('chown', ''))} --"
    new = "chown" in options and (await sandbox.run(f"test -e {shlex.quote(place)}")).code != 0
    copied = [place] if new else []
    for source in sources:
        found = matching(root, source)
        if not found:
            raise SandboxError(f"{step.kind} {step.text}: there is no {source} in {root}")
        folder = target.endswith(("/", ".")) or len(sources) > 1 or len(found) > 1
        folder = folder or not (await sandbox.run(f"test -d {shlex.quote(place)}")).code
        for one in found:
            if step.kind == "ADD" and one.name.endswith(ARCHIVES):
                await sandbox.write(ARCHIVE, one.read_bytes())
                unpack = f"mkdir -p {shlex.quote(place)} && cd {shlex.quote(place)} && tar -xf {ARCHIVE}"
                if "chown" in options:
                    unpack += f" && tar -tf {ARCHIVE} | tr '\\n' '\\0' | {owned}"
                await done(sandbox, f"({unpack}) && rm {ARCHIVE}", step)
                continue
            for file, name in files(one, root, own):
                to = join(place, name) if one.is_dir() or folder else place
                mode = int(options["chmod"], 8) if options.get("chmod", "").isdigit() else file.stat().st_mode
                await sandbox.write(to, file.read_bytes(), mode=mode & 0o777)
                copied += [to, *(join(place, str(above)) for above in PurePosixPath(name).parents[:-1])]
    if "chown" in options:
        await sandbox.write(COPIED, "\0".join(copied).encode())
        await done(sandbox, f"{owned} <{COPIED} && rm {COPIED}", step)


def matching(root: Path, source: str) -> list[Path]:
    """Return what a source of COPY names, inside the context."""
    source = source.lstrip("/") or "."
    found = sorted(root.glob(source)) if any(sign in source for sign in "*?[") else [root / source]
    return [one for one in found if one.exists() and one.resolve().is_relative_to(root)]


def files(one: Path, root: Path, own: Set[str]) -> Iterator[tuple[Path, str]]:
    """Yield the files of a source and their names below the destination."""
    ignored = ignored_in(root)
    for file in [one] if one.is_file() else sorted(one.rglob("*")):
        inside = file.resolve()
        if not inside.is_file() or not inside.is_relative_to(root):
            continue
        if ignored(str(file.relative_to(root))):
            continue
        # by its name, and by what a link or `..` leads to
        if own.isdisjoint((inside.relative_to(root).parts[0], file.relative_to(root).parts[0])):
            yield file, file.name if file == one else str(file.relative_to(one))
