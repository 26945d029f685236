"""Build tasks from two adjacent releases of a public package: the fix between them is the solution.

Nothing of the packages is shipped. `packages.json` names them, their versions and checksums, what the fix
changed, the tests, and an issue in our own words; the source distributions come from the package index.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from pydantic import TypeAdapter

from mcp_bench.servers.base_model import Model
from mcp_bench.servers.left_folders import HeldError, alone_in
from mcp_bench.servers.swe.instance import LAYER, LINES, REPOSITORIES, SweError
from mcp_bench.servers.swe.world import SITE
from mcp_bench.servers.terminal.sanitize import sanitize_line

SDISTS = "sdists"
IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "swe"), ("EMAIL", "swe@localhost"), ("DATE", "2000-01-01T00:00:00Z"))
}
"""Always the same, so that a task's `base_commit` is."""
TEST_TOOLS = ("pytest==9.2.0", "pluggy==1.7.0", "iniconfig==2.3.1", "packaging==26.3", "pygments==2.21.0")


class Release(Model):
    version: str
    sha256: str


class Package(Model):
    """A task of `packages.json`."""

    name: str
    base: Release
    fixed: Release
    source: tuple[str, ...]
    """What of the difference is the solution."""
    tests: tuple[str, ...]
    """What of the difference are the hidden tests."""
    imports: tuple[str, ...] = ()
    """Packages that the tests need besides pytest."""
    issue: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]

    @property
    def task(self) -> str:
        return f"{self.name}-{self.fixed.version}"


def packages() -> tuple[Package, ...]:
    """Return the packages from which tasks are built."""
    text = files(__package__).joinpath("packages.json").read_bytes()
    return TypeAdapter(tuple[Package, ...]).validate_json(text)


def build(target: Path, say: Callable[[str], object], python: str = "/usr/bin/python3") -> list[str]:
    """Build the tasks of `packages.json`; return their ids. What was downloaded is not downloaded again.

    Args:
        target: the tasks' folder.
        say: gets a line about each step.
        python: the Python that the sandboxes have.

    Raises:
        SweError: a package cannot be downloaded, or is not the one that was meant; or another process builds
            in the folder, or it cannot be written.
    """
    if (target / LINES).exists() and not (target / SDISTS).is_dir():
        raise SweError(f"{target / LINES} holds other tasks. Name another folder")
    chosen = packages()
    try:
        target.mkdir(parents=True, exist_ok=True)
        with alone_in(target):
            for name in (SDISTS, REPOSITORIES):
                (target / name).mkdir(exist_ok=True)
            say(f"installing pytest into {target / LAYER}")
            install(target, tuple(word for one in chosen for word in one.imports), python)
            lines = []
            for one in chosen:
                say(f"building {one.task}")
                lines.append(json.dumps(built(one, target)))
            partial = target / f".{LINES}"
            partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
            partial.replace(target / LINES)
    except HeldError:
        raise SweError(f"another process builds tasks in {target}: wait until it ends") from None
    except OSError as error:
        raise SweError(f"cannot write {error.filename or target}: {error.strerror or error}") from error
    return [one.task for one in chosen]


def install(target: Path, imports: tuple[str, ...], python: str) -> None:
    """Install what tests import into the tasks' layer, as wheels for the sandboxes' Python."""
    version = run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
    site = target / LAYER / SITE.lstrip("/")
    options = ["--no-deps", "--only-binary=:all:", "--python-version", version.strip(), "--upgrade"]
    pip("install", "--quiet", *options, "--target", str(site), *TEST_TOOLS, *imports)
    for place in (target / LAYER, *(target / LAYER).rglob("*")):  # every user of a sandbox reads them
        if not place.is_symlink():
            place.chmod(0o755 if place.is_dir() or place.parent.name == "bin" else 0o644)


def built(one: Package, target: Path) -> dict[str, object]:
    """Make the repository of one task, and return its line."""
    place = target / REPOSITORIES / one.name
    base, fixed = (downloaded(one.name, release, target / SDISTS) for release in (one.base, one.fixed))
    shutil.rmtree(place, ignore_errors=True)
    unpack(base, place)
    git(place, "init", "-q", "-b", "main")
    git(place, "add", "-A", "-f")
    git(place, "commit", "-q", "-m", f"{one.name} {one.base.version}")
    commit = git(place, "rev-parse", "HEAD").strip()
    with tempfile.TemporaryDirectory(dir=target) as scratch:
        unpack(fixed, Path(scratch) / "tree")
        (place / ".git").rename(Path(scratch) / "tree" / ".git")
        try:
            tree = Path(scratch) / "tree"
            git(tree, "add", "-A", "-f")
            patches = [
                git(tree, "diff", "--cached", commit, "--", *paths) for paths in (one.source, one.tests)
            ]
            git(tree, "reset", "-q", commit)
        finally:
            (Path(scratch) / "tree" / ".git").rename(place / ".git")
    return {
        "instance_id": one.task,
        "repo": one.name,
        "base_commit": commit,
        "patch": patches[0],
        "test_patch": patches[1],
        "problem_statement": one.issue,
        "FAIL_TO_PASS": one.fail_to_pass,
        "PASS_TO_PASS": one.pass_to_pass,
        "version": one.base.version,
    }


def downloaded(name: str, release: Release, folder: Path) -> Path:
    """Return a source distribution, downloaded if it is not there.

    Raises:
        SweError: it cannot be downloaded, or has another checksum.
    """
    found = folder / f"{name}-{release.version}.tar.gz"
    if not found.exists():
        pip(
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            name,
            "--dest",
            str(folder),
            f"{name}=={release.version}",
        )
    if not found.exists():
        raise SweError(f"pip downloaded no {found.name}: is the package index a mirror without sources?")
    digest = sha256(found.read_bytes()).hexdigest()
    if digest != release.sha256:
        raise SweError(f"{found} has the checksum {digest}, not {release.sha256}. Remove it and try again")
    return found


def unpack(sdist: Path, place: Path) -> None:
    """Unpack a source distribution without its top folder and the metadata that its build added."""
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch, tarfile.open(sdist) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4
        tar.extractall(scratch)  # noqa: S202 - filtered
        (top,) = Path(scratch).iterdir()
        top.rename(place)
    (place / "PKG-INFO").unlink(missing_ok=True)
    for made in place.rglob("*.egg-info"):
        shutil.rmtree(made)


def pip(*words: str) -> None:
    run([sys.executable, "-m", "pip", *words])


def git(place: Path, *words: str) -> str:
    return run(
        ["git", "-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false", "-C", str(place), *words]
    )


def run(argv: list[str]) -> str:
    """Run a program and return what it prints.

    Raises:
        SweError: it cannot be started, or fails.
    """
    environ = {**os.environ, **IDENTITY, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    try:
        done = subprocess.run(argv, capture_output=True, env=environ, check=False)
    except OSError as error:
        raise SweError(f"{argv[0]} cannot be started: {error.strerror}") from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise SweError(f"{argv[0]} failed: {sanitize_line(lines[-1])}")
    return done.stdout.decode()
