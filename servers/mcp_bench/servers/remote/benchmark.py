"""Run any benchmark in a worker process. The parent never imports it."""

from __future__ import annotations

import itertools
import os
import re
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio

from mcp_bench.servers.contracts import BenchmarkDefaults, Reference, Replay, Task, ToolSpec, World
from mcp_bench.servers.environments.pins import read_pins, shipped_pins
from mcp_bench.servers.environments.places import folder, link_ours, python_in, state
from mcp_bench.servers.errors import BenchError, MissingDependencyError, WorkerDiedError
from mcp_bench.servers.host import NO_HOST, Host
from mcp_bench.servers.needs import missing
from mcp_bench.servers.remote.connection import WorkerConnection
from mcp_bench.servers.remote.host import Lender
from mcp_bench.servers.remote.interpreter import lacking
from mcp_bench.servers.remote.process import WorkerProcess
from mcp_bench.servers.remote.world import RemoteWorld
from mcp_bench.servers.secret import made_secret

NO_MODULE = re.compile(r"No module named '?([A-Za-z_]\w*)")
"""What Python prints when the worker's own imports fail."""
UNFINISHED = "the installation of its environment did not finish"
OUTDATED = "its environment was built for another version of mcp-bench"
PAGE = 50
"""Tasks per request, so that iteration stays lazy."""


class RemoteBenchmark(BenchmarkDefaults):
    """Implements the Benchmark contract through a worker process, started on first use.

    `tasks`, `task`, `reference` and `tools` block. The other methods are async and support many worlds and
    requests at once. When the worker dies, its pending requests fail with WorkerDiedError and its worlds are
    lost; the next use of the benchmark starts a new worker. The worker ends with `aclose`, with this object,
    or with this process, even if the process is killed.
    """

    def __init__(
        self,
        name: str,
        target: str,
        *,
        version: str,
        summary: str = "",
        replay: Replay = "exact",
        replay_ignores: Sequence[str] = (),
        python: str = sys.executable,
        packages: Sequence[str] = (),
        programs: Sequence[str] = (),
        private_splits: Sequence[str] = (),
        install: str = "",
        licence: str = "",
        converses: bool = False,
        pins: Path | None = None,
    ) -> None:
        """Describe the benchmark, without starting the worker.

        Args:
            target: the Benchmark to load in the worker: `module:attribute` or `path/to/file.py:attribute`,
                and `?FOLDER` after it for one that works on a folder (its method `at`).
            python: the worker's interpreter; the benchmark's packages, this one, pydantic and anyio must be
                installed in it. The environment variable `MCP_BENCH_PYTHON_<NAME>` (the name in upper case,
                `-` as `_`) names another one, and so does `mcp-bench benchmarks install`.
            packages: the benchmark's own top-level modules, which `missing` looks for.
            programs: programs on PATH that the benchmark starts, which `missing` looks for, too.
            private_splits: splits that follow from a secret (`mcp_bench.servers.secret`).
            install: command that installs the benchmark's dependencies, shown in error texts. By default
                `mcp-bench benchmarks install`, if there is a pinned list.
            licence: the licence of the benchmark's data.
            converses: whether its worlds' users speak again.
            pins: a pinned list of packages (TOML), which `mcp-bench benchmarks install` builds an environment
                from. mcp-bench has its own for some names.
        """
        self.name = name
        self.version = version
        self.summary = summary
        self.replay: Replay = replay
        self.replay_ignores = tuple(replay_ignores)
        self._target = target
        self._python = python
        self._packages = tuple(packages)
        self._programs = tuple(programs)
        self.private_splits = tuple(private_splits)
        self.python_variable = "MCP_BENCH_PYTHON_" + name.upper().replace("-", "_")
        """The environment variable that names the worker's interpreter."""
        self.pins = pins or shipped_pins(name)
        """The list of packages of an environment of its own, if it has one."""
        self.install = install or (f"mcp-bench benchmarks install {name}" if self.pins else "")
        self.licence = licence
        self.converses = converses
        self._world_numbers = itertools.count(1)
        self._starting = threading.Lock()
        self._connection: WorkerConnection | None = None

    @property
    def python(self) -> str:
        """The worker's interpreter: the variable's, else the installed environment's, else the one given."""
        if named := os.environ.get(self.python_variable):
            return named
        installed = self.pins is not None and state(self.name, read_pins(self.pins)) == "ready"
        return str(python_in(folder(self.name))) if installed else self._python

    @property
    def variables(self) -> dict[str, str]:
        """What it finds in this home, for a process that has another one."""
        return {self.python_variable: self.python}

    def missing(self) -> str | None:
        """Return why the benchmark cannot run here, or None. This does not start the worker."""
        if reason := self._lacks_program():
            return reason
        reason = lacking(self.python, self._packages)
        if reason and self.pins is not None and self.python == self._python:
            found = state(self.name, read_pins(self.pins))
            return {"unfinished": UNFINISHED, "outdated": OUTDATED}.get(found, reason)
        return reason

    def _lacks_program(self) -> str | None:
        reasons = (missing(f"program:{program}") for program in self._programs)
        return next(filter(None, reasons), None)

    def prepare_split(self, split: str) -> str | None:
        """Create the secret of a private split on its first use, and return what to say about it.

        Raises:
            SecretError: it cannot be written.
        """
        return made_secret(self.name) if split in self.private_splits else None

    @property
    def worker_pid(self) -> int | None:
        """Process id of the running worker, or None."""
        connection = self._connection
        return connection.pid if connection is not None and connection.alive else None

    def tasks(self, split: str | None = None, limit: int | None = None) -> Iterator[Task]:
        connection = self._connected()
        cursor = connection.request("tasks", split=split, limit=limit)
        try:
            while page := connection.request("page", cursor=cursor, size=PAGE):
                yield from map(Task.model_validate, page)
        finally:  # perhaps by the garbage collector, in the thread that reads the answers
            connection.post("forget", cursor=cursor)

    def task(self, task_id: str) -> Task:
        return Task.model_validate(self._connected().request("task", task_id=task_id))

    def reference(self, task_id: str) -> Reference | None:
        found = self._connected().request("reference", task_id=task_id)
        return None if found is None else Reference.model_validate(found)

    def tools(self) -> Sequence[ToolSpec]:
        return [ToolSpec.model_validate(tool) for tool in self._connected().request("tools")]

    async def open(self, task_id: str, *, seed: int = 0, host: Host = NO_HOST) -> World:
        connection = self._connection
        if connection is None or not connection.alive:  # starting a worker takes a while
            connection = await anyio.to_thread.run_sync(self._connected)
        number = next(self._world_numbers)
        lender = Lender(host)
        try:
            opened = await connection.arequest("open", None, lender, world=number, task_id=task_id, seed=seed)
            tools = await connection.tools_of(number, opened)
        except BaseException:  # also when this is cancelled
            # the world may already be open, and no one else would close it
            connection.drop(number)
            raise
        return RemoteWorld(connection, number, opened, tools, lender)

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await anyio.to_thread.run_sync(connection.close)

    def _connected(self) -> WorkerConnection:
        with self._starting:
            if self._connection is None or not self._connection.alive:
                self._connection = self._start()
            return self._connection

    def _start(self) -> WorkerConnection:
        python = self.python
        advice = f"; install it with: {self.install}" if self.install else ""
        if reason := self._lacks_program():
            raise MissingDependencyError(f"benchmark {self.name!r}: {reason}{advice}")
        if python == str(python_in(folder(self.name))):  # another installation may have built or used it
            link_ours(folder(self.name))
        try:
            connection = WorkerConnection(self.name, WorkerProcess(self._target, python))
        except MissingDependencyError as error:
            source = f" (from ${self.python_variable})" if self.python_variable in os.environ else ""
            raise MissingDependencyError(f"benchmark {self.name!r}: {error}{source}") from None
        try:
            hello = connection.request("hello")
        except MissingDependencyError as error:
            connection.close()
            raise MissingDependencyError(f"benchmark {self.name!r}: {error}{advice}") from None
        except WorkerDiedError as error:
            connection.close()
            if (lacking := NO_MODULE.search(str(error))) is None:
                raise
            raise MissingDependencyError(
                f"benchmark {self.name!r}: the Python {python!r} has no package {lacking[1]!r}. A worker "
                "needs this version of mcp-bench, pydantic, anyio, and the benchmark's own packages. Install "
                f"them there, or name another Python in ${self.python_variable}"
            ) from error
        except BaseException:
            connection.close()
            raise
        theirs, ours = (hello["name"], hello["version"]), (self.name, self.version)
        if theirs != ours:
            connection.close()
            raise BenchError(
                f"the worker's Python has benchmark {theirs[0]!r} version {theirs[1]!r}, "
                f"this one expects {ours[0]!r} version {ours[1]!r}: install the same version on both sides"
            )
        weakref.finalize(self, connection.close)
        return connection
