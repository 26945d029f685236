"""Samples of searches that a home keeps by content.

The key is a hash of all that a sample follows from. Samples of clocks also follow from the machine: the same
program asked again adds samples to a pool. Those of other kinds follow from the drawn items, and so from the
seed: one measurement has them all. Held-out samples are never kept here, nor are crashes: a crash can be the
machine's fault.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from mcp_bench.servers.home import home
from mcp_bench.servers.improve.measure import CLOCKED
from mcp_bench.servers.improve.packages import VERSION, versions
from mcp_bench.servers.improve.task_file import ImproveTask
from mcp_bench.servers.improve.versions import Files, digest
from mcp_bench.servers.sandbox import Enforced

FOLDER = "improve/samples"
MOST = 200
"""Samples of one program that are read, where a clock is: the last ones."""
Samples = dict[str, list[float]]


class Kept:
    """The pool of one attempt: of a task's variant, on one machine."""

    def __init__(self, task: ImproveTask, task_id: str, seed: int, enforced: Enforced) -> None:
        self._clock = task.definition.experiment.kind in CLOCKED
        self._about = [
            task.definition.model_dump_json(),
            (task.folder / "scorer.py").read_text(encoding="utf-8"),
            digest(task.baseline),
            digest(task.readonly),
            task.model,
            task_id,
            VERSION,
            *versions(task.definition.experiment.packages),
            f"{enforced.machine} {processor()}" if self._clock else str(seed),
        ]

    def read(self, files: Files) -> Samples:
        """Return what was measured of a program and, on the same items, of the baseline."""
        measured = self._measured(files)
        if not self._clock:  # attempts that measured at the same time added the same items
            return measured[-1] if measured else {}
        pool: Samples = {}
        for samples in measured:
            for name, values in samples.items():
                pool[name] = [*pool.get(name, ()), *values]
        return {name: values[-MOST:] for name, values in pool.items()}

    def _measured(self, files: Files) -> list[Samples]:
        found: list[Samples] = []
        with suppress(OSError):
            for line in self._place(files).read_text(encoding="utf-8").splitlines():
                with suppress(ValueError):  # a line that a killed process or a full disk cut off
                    found.append(json.loads(line))
        return found

    def add(self, files: Files, samples: Samples) -> None:
        """Add a measurement: one write, so that processes do not mix theirs."""
        place = self._place(files)
        with suppress(OSError):  # a full disk costs samples, not the attempt
            place.parent.mkdir(parents=True, exist_ok=True)
            opened = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(opened, b"\n" + json.dumps(samples).encode() + b"\n")
            finally:
                os.close(opened)

    def _place(self, files: Files) -> Path:
        return home() / FOLDER / f"{content_key([*self._about, digest(files)])}.jsonl"


def content_key(parts: Sequence[str]) -> str:
    """Return a hash of texts. Where one ends and the next begins is part of it."""
    return sha256(json.dumps(list(parts)).encode()).hexdigest()


def processor() -> str:
    """Return the model of this machine's processors."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, model = line.partition(":")
            if name.strip() in ("model name", "Model", "cpu"):
                return model.strip()
    return platform.machine()
