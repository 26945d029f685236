"""Check the machine: Python, storage, temporary files, isolation and optional packages."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import anyio

from mcp_bench.bridge.doctor.finding import Check, Finding, hint, info, ok, problem
from mcp_bench.bridge.interactive.paths import RefereePaths
from mcp_bench.bridge.isolation.levels import BY_NAME
from mcp_bench.bridge.isolation.support import subreaper
from mcp_bench.bridge.sandbox.engine import choose, engines
from mcp_bench.bridge.sandbox.kept_layers import most_bytes
from mcp_bench.bridge.telemetry import ENDPOINTS
from mcp_bench.bridge.wire.episode_folder import EpisodeFolder
from mcp_bench.recorder.isolation_levels import SEALING
from mcp_bench.recorder.paths import SOCKET_PATH_BYTES
from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.servers.extras import TRAINER, TRAINER_COMMANDS, install_extra, install_trainer
from mcp_bench.servers.home import home
from mcp_bench.servers.sandbox import Enforced, SandboxSpec

GIB = 1 << 30
LITTLE = 2 * GIB
"""With fewer free bytes, a long run may not fit: an episode takes a few hundred kilobytes."""
TOO_LITTLE = GIB // 5
EXTRAS = {
    "report": ("matplotlib", "report --html"),
    "parquet": ("pyarrow", "export and import of Parquet files"),
    "zstd": ("zstandard", "export --compress zstd"),
    "tokenizers": ("tokenizers", "export --max-tokens"),
    "hub": ("huggingface-hub", "export --push"),
    "otel": ("opentelemetry-sdk", "spans for every call, sent to OTEL_EXPORTER_OTLP_ENDPOINT"),
}
"""By extra: one of its packages, and what needs it. A benchmark names its own extra."""


def machine_checks() -> list[Check]:
    return [
        Check("machine", "python", python),
        Check("machine", "storage", storage),
        Check("machine", "temporary files", temporary_files),
        Check("machine", "isolation", isolation),
        Check("machine", "sandboxes", sandboxes),
        Check("machine", "extras", extras),
    ]


def python() -> Iterator[Finding]:
    system = platform.system()
    yield ok("python", f"Python {platform.python_version()}, {sys.executable}")
    if system != "Linux":
        yield problem("system", f"this is {system}", "use Linux, which the supervision of agents needs")


def storage() -> Iterator[Finding]:
    """Write and remove a database in the recording home, or in its nearest existing parent."""
    place = home()
    there = next(path for path in (place, *place.parents) if os.path.lexists(path))
    if not there.is_dir():
        yield problem("home", f"{there} is no folder", "set MCP_BENCH_HOME to a writable folder")
        return
    text = str(place) if there == place else f"{place}, which does not exist yet"
    if not os.access(there, os.W_OK | os.X_OK):
        yield problem("home", f"{there} is not writable", "set MCP_BENCH_HOME to a writable folder")
        return
    yield ok("home", text)
    if mode := journal_mode(there):
        advice = "set MCP_BENCH_HOME to a folder on a local disk"
        yield problem("sqlite", f"SQLite {sqlite3.sqlite_version} cannot use WAL in {there}: {mode}", advice)
    else:
        yield ok("sqlite", f"SQLite {sqlite3.sqlite_version} with WAL")
    free = shutil.disk_usage(there).free
    space = f"{free / GIB:.1f} GiB free"
    advice = "free some space, or set MCP_BENCH_HOME to another disk"
    if free < LITTLE:
        yield (problem if free < TOO_LITTLE else hint)("disk", f"only {space}", advice)
    else:
        yield ok("disk", space)
    if len(os.fsencode(RefereePaths().control_socket)) > SOCKET_PATH_BYTES:
        advice = "set MCP_BENCH_HOME to a shorter path to use `mcp-bench up` or `connect`"
        yield hint("sockets", f"the path {place} is too long for the sockets of interactive use", advice)


def journal_mode(folder: Path) -> str | None:
    """Return why SQLite cannot use WAL mode in a folder, or None if it can."""
    try:
        with tempfile.TemporaryDirectory(prefix=".mcp-bench-doctor-", dir=folder) as scratch:
            path = Path(scratch) / "probe.db"
            with closing(sqlite3.connect(path)) as writer, closing(sqlite3.connect(path)) as reader:
                (mode,) = writer.execute("PRAGMA journal_mode = WAL").fetchone()
                if mode != "wal":
                    return f"it falls back to {mode}"
                writer.execute("CREATE TABLE probe (number INTEGER)")
                writer.execute("INSERT INTO probe VALUES (1)")
                writer.commit()
                reader.execute("SELECT number FROM probe").fetchall()
    except (sqlite3.Error, OSError) as error:
        return str(error)
    return None


def temporary_files() -> Iterator[Finding]:
    """Create an episode's folder.

    Raises:
        BenchError: it cannot be created.
    """
    with EpisodeFolder() as folder:
        parent = folder.path.parent
    yield ok("folder", f"{parent} can hold an episode's folder and its socket")
    free = shutil.disk_usage(parent).free
    if free < TOO_LITTLE:
        yield hint("disk", f"only {free / GIB:.1f} GiB free in {parent}", "free some space, or set TMPDIR")


def isolation() -> Iterator[Finding]:
    orphans = subreaper()
    if not orphans.works:
        yield problem("processes", orphans.detail, orphans.advice)
    found = {name: BY_NAME[name].support() for name in SEALING}
    for level, support in found.items():
        if support.works:
            yield ok(level, support.detail)
        else:
            yield hint(level, support.detail, support.advice)
    if not any(support.works for support in found.values()):
        yield hint(
            "levels", "agents cannot be isolated here", "follow the advice for one of the levels above"
        )


def sandboxes() -> Iterator[Finding]:
    """Start a sandbox, which runs its probes. Only worlds that run commands need one."""
    only = "only benchmarks whose tasks run commands need one"
    try:
        most_bytes()
    except WrongUseError as error:
        yield problem("kept layers", str(error), "`record` refuses it")
    found = {name: engine.support() for name, engine in engines().items()}
    for name, support in found.items():
        if not support.works:
            yield info(name, f"no sandboxes by {name}: {support.detail}; {only}", support.advice)
            continue
        try:
            enforced = anyio.run(started, name)
        except BenchError as error:
            yield hint(name, f"{error}; {only}", "follow the advice in docs/security/sandbox.md")
            continue
        if not enforced.sound:
            failed = ", ".join(probe for probe, refused in enforced.probes.items() if not refused)
            yield hint(
                name,
                f"a sandbox lets through: {failed}",
                support.advice or "its episodes are not verified; see docs/security/sandbox.md",
            )
            continue
        kept = f"memory {enforced.memory}, processors by {enforced.cpus}"
        yield ok(name, f"sandboxes by {name} {enforced.version}: {enforced.user}, {kept}")


async def started(engine: str) -> Enforced:
    """Start a sandbox and return what it enforces.

    Raises:
        SandboxError: it could not be started.
    """
    async with choose(engine).sandbox(SandboxSpec()) as sandbox:
        return sandbox.enforced


def extras() -> Iterator[Finding]:
    """Show which optional packages are installed. Those that are not are no fault of this machine."""
    parts = [(name, *found, install_extra(name)) for name, found in EXTRAS.items()]
    parts.append(("trainer", TRAINER, ", ".join(TRAINER_COMMANDS), install_trainer()))
    for name, package, purpose, install in parts:
        try:
            yield ok(name, f"{package} {version(package)}, for {purpose}")
        except PackageNotFoundError:
            if name == "otel" and any(map(os.environ.get, ENDPOINTS)):
                text = f"{package} is not installed, and runs are to send spans to an OpenTelemetry endpoint"
                yield problem(name, text, f"{install}, or unset {' and '.join(ENDPOINTS)}")
            else:
                yield info(name, f"{package} is not installed; only {purpose} needs it", install)
