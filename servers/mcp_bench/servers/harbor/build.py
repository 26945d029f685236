"""Follow a Dockerfile in a sandbox."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Set
from pathlib import Path
from posixpath import join

from mcp_bench.servers.errors import SandboxError
from mcp_bench.servers.harbor.dockerfile import Image, Step, copy_words
from mcp_bench.servers.harbor.folder import OWN_FILES, TaskFolder
from mcp_bench.servers.sandbox import Sandbox

RUN_SECONDS = 300.0
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
ARCHIVE = "/run/mcp-bench-archive"
SHOWN = 300


async def build(sandbox: Sandbox, task: TaskFolder, image: Image) -> None:
    """Make the files of an image in a new sandbox; they belong to its base afterwards.

    Raises:
        SandboxError: an instruction failed.
    """
    for step in image.steps:
        match step.kind:
            case "WORKDIR":
                await done(sandbox, f"mkdir -p {shlex.quote(step.text)}", step)
            case "RUN":
                exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in step.env.items())
                await done(sandbox, f"({exports}cd {shlex.quote(step.workdir)}\n{step.text}\n)", step)
            case _:
                own = OWN_FILES if task.format == "terminal-bench" else frozenset[str]()
                await copy(sandbox, task.context.resolve(), step, own)
    if image.steps:
        await sandbox.commit()


async def done(sandbox: Sandbox, command: str, step: Step) -> None:
    result = await sandbox.run(command, seconds=RUN_SECONDS)
    if result.code:
        raise SandboxError(f"{step.kind} {step.text[:SHOWN]}: {result.output[-SHOWN:].strip()}")


async def copy(sandbox: Sandbox, root: Path, step: Step, own: Set[str]) -> None:
    """Follow COPY or ADD. The task's tests and solution are never copied.

    Args:
        root: the context, resolved.
        own: what in it is never copied.

    Raises:
        SandboxError: a source is missing, or lies outside of the context.
    """
    options, sources, target = copy_words(step.text)
    place = join(step.workdir, target)
    for source in sources:
        found = matching(root, source)
        if not found:
            raise SandboxError(f"{step.kind} {step.text}: there is no {source} in {root}")
        folder = target.endswith(("/", ".")) or len(sources) > 1 or len(found) > 1
        folder = folder or not (await sandbox.run(f"test -d {shlex.quote(place)}")).code
        for one in found:
            if step.kind == "ADD" and one.name.endswith(ARCHIVES):
                await sandbox.write(ARCHIVE, one.read_bytes())
                unpack = f"mkdir -p {shlex.quote(place)} && tar -xf {ARCHIVE} -C {shlex.quote(place)}"
                await done(sandbox, f"{unpack} && rm {ARCHIVE}", step)
                continue
            for file, name in files(one, root, own):
                to = join(place, name) if one.is_dir() or folder else place
                mode = int(options["chmod"], 8) if options.get("chmod", "").isdigit() else file.stat().st_mode
                await sandbox.write(to, file.read_bytes(), mode=mode & 0o777)
    if "chown" in options:
        await done(sandbox, f"chown -R {shlex.quote(options['chown'])} {shlex.quote(place)}", step)


def matching(root: Path, source: str) -> list[Path]:
    """Return what a source of COPY names, inside the context."""
    source = source.lstrip("/") or "."
    found = sorted(root.glob(source)) if any(sign in source for sign in "*?[") else [root / source]
    return [one for one in found if one.exists() and one.resolve().is_relative_to(root)]


def files(one: Path, root: Path, own: Set[str]) -> Iterator[tuple[Path, str]]:
    """Yield the files of a source and their names below the destination."""
    for file in [one] if one.is_file() else sorted(one.rglob("*")):
        inside = file.resolve()
        if not inside.is_file() or not inside.is_relative_to(root):
            continue
        # by its name, and by what a link or `..` leads to
        if own.isdisjoint((inside.relative_to(root).parts[0], file.relative_to(root).parts[0])):
            yield file, file.name if file == one else str(file.relative_to(one))
