"""A task in SWE-bench's format: one JSON line (https://www.swebench.com/SWE-bench/guides/datasets/)."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field, ValidationError, field_validator

from mcp_bench.servers.base_model import Model
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.home import expanded, home
from mcp_bench.servers.sandbox import HOST_BASE
from mcp_bench.servers.worlds.lines import lines_of

VARIABLE = "MCP_BENCH_SWE"
LINES = "tasks.jsonl"
REPOSITORIES = "repos"
LAYER = "layer"
"""A folder over the sandbox's base, with what tests import."""


class SweError(BenchError):
    """The tasks, or a repository of theirs, cannot be read."""


class Instance(Model):
    """One task. The keys in capitals are SWE-bench's; it has more, which nothing here needs."""

    model_config = ConfigDict(extra="ignore")

    instance_id: str = Field(pattern=r"^[\w.+-]+$")
    repo: str = Field(pattern=r"^[\w.-]+(/[\w.-]+)?$")
    """`OWNER/NAME`. Its clone is the folder `OWNER__NAME`."""
    base_commit: str = Field(pattern=r"^[\w./-]+$")
    problem_statement: str
    patch: str = ""
    """The reference solution. Without one, the oracle leaves the task out."""
    test_patch: str = ""
    fail_to_pass: tuple[str, ...] = Field(alias="FAIL_TO_PASS", min_length=1)
    """Ids of pytest: `tests/test_one.py::test_it`."""
    pass_to_pass: tuple[str, ...] = Field(default=(), alias="PASS_TO_PASS")
    split: Literal["train", "dev", "test"] = "test"
    base: str = HOST_BASE
    """The sandbox's base: `host`, or a folder with a whole system, relative to the tasks' folder."""
    pythonpath: tuple[str, ...] = ("src", "")
    """Folders of the repository that tests import from."""

    @field_validator("fail_to_pass", "pass_to_pass", mode="before")
    @classmethod
    def from_text(cls, value: object) -> object:
        """Read the lists that SWE-bench stores as JSON text."""
        return json.loads(value) if isinstance(value, str) else value

    @field_validator("fail_to_pass", "pass_to_pass")
    @classmethod
    def of_pytest(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if "::" not in name:
                raise ValueError(f"{name!r} is no test id of pytest, such as tests/test_one.py::test_it")
        return value

    @property
    def clone(self) -> str:
        return self.repo.replace("/", "__")


def folder() -> Path:
    """Return the folder of the tasks: `$MCP_BENCH_SWE`, or `swe` in the home of mcp-bench."""
    named = os.environ.get(VARIABLE)
    return expanded(named).absolute() if named else home() / "swe"


def instances() -> dict[str, Instance]:
    """Return the tasks by id, in the file's order.

    Raises:
        SweError: there is no file, or a line of it is no task.
    """
    path = folder() / LINES
    try:
        return _read(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise SweError(
            f"{path} cannot be read ({error.strerror}). `mcp-bench swe-tasks` builds five tasks from public "
            f"packages; for tasks of yours, set {VARIABLE} to a folder with {LINES}"
        ) from error


@lru_cache(maxsize=4)
def _read(path: Path, changed_ns: int) -> dict[str, Instance]:
    found: dict[str, Instance] = {}
    data = path.read_bytes()
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise SweError(f"{path}, line {number}: it is not UTF-8") from error
    for number, line in enumerate(lines_of(text), 1):
        if not line.strip():
            continue
        try:
            one = Instance.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise SweError(f"{path}, line {number}: {place and f'{place}: '}{first['msg']}") from error
        if one.instance_id in found:
            raise SweError(f"{path}, line {number}: {one.instance_id} is there twice")
        found[one.instance_id] = one
    return found
