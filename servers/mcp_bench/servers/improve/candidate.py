"""A candidate: files of a target, running in a sandbox, that only answer. The clock is read from outside."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mcp_bench.servers.contracts import ChatMessage
from mcp_bench.servers.errors import SandboxEndedError
from mcp_bench.servers.host import NO_HOST, Host
from mcp_bench.servers.improve.inside import values
from mcp_bench.servers.improve.task_file import INPUT, MODEL, ImproveTask
from mcp_bench.servers.sandbox import Answers, Sandbox

PATH, TARGET, DATA, MODELS = "/driver", "/task", "/data", "/model"
"""Where a sandbox has our driver, the target's files, what a kind gives besides, and what answers prompts."""
INSIDE = Path(__file__).parent / "inside"
DRIVER = f"{PATH}/mcp_bench/servers/improve/inside"
MASKED = tuple(
    place
    for place in (
        "/usr/share/locale",
        "/usr/share/iso-codes",
        "/usr/share/i18n",
        "/usr/lib/python3/dist-packages",
    )
    if Path(place).is_dir()
)
"""Folders of the machine that a candidate does not see: translations, and packages that no task named."""
MIB = 1 << 20
MOST_BYTES, MOST_TOGETHER = 64 * MIB, 128 * MIB
"""For one answer, and for all answers to the questions of one request."""
SPARE_BYTES = MIB
"""An answer may always have as much: questions are asked in groups, so that all together fit into memory."""
MOST_TEXT = 4 * MIB
"""For the JSON of all answers of one request: it takes many times the memory when it is read."""
PATIENCE = 10.0
"""Seconds that may pass for each processor second of a limit; sandboxes wait as long for an answer."""
OVER = "the time of this measurement is over"
SHOWN = 1500
CLASSES = (
    ("out_of_memory", r"MemoryError|Cannot allocate|bad_alloc"),
    ("syntax", r"SyntaxError|IndentationError|TabError"),
    ("import", r"ModuleNotFoundError|ImportError"),
    ("assertion", r"AssertionError"),
    ("refused", r"PermissionError|can't start new thread|Operation not permitted"),
    ("numeric", r"ZeroDivisionError|OverflowError|FloatingPointError|math domain error"),
    ("unknown_name", r"AttributeError|NameError|KeyError"),
)
"""Classes of crashes by what the traceback says."""


class CrashError(Exception):
    """A candidate failed: its own fault, and no measure of it."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}" if text else kind)
        self.kind, self.text = kind, text


class Candidate:
    """Some version of the target, in a sandbox of its own."""

    def __init__(
        self, task: ImproveTask, files: Mapping[str, str], sandbox: Sandbox, host: Host = NO_HOST
    ) -> None:
        self._task, self._files, self._sandbox, self._host = task, files, sandbox, host
        self._data: tuple[str, ...] = ()
        self._mounts: dict[str, Mapping[str, bytes]] = {}
        self._halted = False
        self._left = 0.0
        """Processor seconds of this measurement that are left. At least a tenth of the time counts."""
        self.used_seconds = 0.0
        """Of the processors, since this object was made."""
        self.wall_seconds = 0.0
        """That its answers took, by the wall clock."""
        self.load_seconds = 0.0
        """By its clock, until it was ready."""
        self.clock = ""
        """What its times were read from: see `Answers.clock`; `wall` for a GPU's."""

    async def begin(self, data: Mapping[str, bytes] | None = None) -> None:
        """Start it anew: nothing that an earlier process or its files knew is left.

        Args:
            data: files to put into `/data`.

        Raises:
            CrashError: it does not load.
        """
        target = {name: text.encode() for name, text in {**self._task.readonly, **self._files}.items()}
        mounts: dict[str, Mapping[str, bytes]] = {TARGET: target, DRIVER: drivers()}
        if self._task.model:  # which alone runs: a prompt is no program
            mounts = {MODELS: {MODEL: self._task.model.encode()}, DRIVER: drivers()}
        mounts |= {place: {} for place in MASKED}
        if data:
            mounts[DATA] = data
        self._mounts, self._data = mounts, tuple(data or ())
        self._left = self._task.definition.experiment.seconds
        await self.begin_again()

    async def begin_again(self) -> None:
        """Start it anew in the same measurement, with the time that is left of it.

        Raises:
            CrashError: it does not load.
        """
        await self._renew()
        await self.start()

    async def _renew(self) -> None:
        try:
            await self._sandbox.renew(self._mounts, fresh=True)
        except SandboxEndedError:  # of the program before: what it left behind ended everything
            await self._sandbox.renew(self._mounts, fresh=True)
        self._halted = False

    async def halt(self) -> None:
        """End all its processes, until it is started again."""
        await self._sandbox.halt()
        self._halted = True

    async def start(self) -> None:
        """Start its process again.

        Raises:
            CrashError: it does not load, or has slept too long.
        """
        self._check_time()
        if self._halted:
            await self._renew()
        experiment = self._task.definition.experiment
        main = f"{MODELS}/{MODEL}" if self._task.model else f"{TARGET}/{self._task.definition.target[0]}"
        driver = "sql_driver.py" if experiment.kind == "sql" else "driver.py"
        argv = ["python3", "-s", "-B", f"{DRIVER}/{driver}", main, *(f"{DATA}/{name}" for name in self._data)]
        try:
            found = await self._sandbox.start(
                argv, seconds=experiment.load_seconds, alone=not experiment.processes
            )
        except SandboxEndedError as error:
            raise CrashError("over_limit", str(error)) from error
        used = sum(found.cpu_seconds)
        self.used_seconds += used
        # what loading may compute has a limit of its own; what it sleeps holds up the measurement
        self._left -= max(0.0, found.seconds - found.waited - used) / PATIENCE
        _answers(found, 1, _Room())
        self._check_time()
        self.clock = "wall" if experiment.gpu else found.clock
        self.load_seconds = found.seconds if experiment.gpu else found.cpu_seconds[0]

    def _check_time(self) -> None:
        if self._left <= 0:
            raise CrashError("timeout", OVER)

    async def call(self, function: str, arguments: Sequence[Any]) -> tuple[Any, float]:
        """Return what a function returns, and the seconds since the last answer, by its clock.

        Raises:
            CrashError: it failed, or took too long.
        """
        began = self.wall_seconds
        found, seconds = await self.calls([(function, arguments)])
        return found[0], self.wall_seconds - began if self.clock == "wall" else seconds[0]

    async def calls(self, calls: Sequence[tuple[str, Sequence[Any]]]) -> tuple[list[Any], list[float]]:
        """Call functions one after the other: the arguments of each arrive after the answer before it.

        The times are processor seconds.

        Raises:
            CrashError: one of them failed, or all together took too long.
        """
        most = min(MOST_BYTES, max(MOST_TOGETHER // max(1, len(calls)), SPARE_BYTES))
        group, room = MOST_TOGETHER // most, _Room()
        results, used = list[Any](), list[float]()
        for start in range(0, len(calls), group):
            questions = [values.pack([name, list(given)]) for name, given in calls[start : start + group]]
            found = await self._asked(questions, most)
            results += _answers(found, len(questions), room)
            used += found.cpu_seconds
        return results, used

    async def _asked(self, questions: Sequence[bytes], most: int) -> Answers:
        self._check_time()
        try:
            found = await self._sandbox.ask(questions, seconds=self._left, most=most)
        except SandboxEndedError as error:
            raise CrashError("over_limit", str(error)) from error
        # a program that sleeps uses no processor, and would hold up a measurement question by question
        self._left -= max(sum(found.cpu_seconds), (found.seconds - found.waited) / PATIENCE)
        self.used_seconds += sum(found.cpu_seconds)
        self.wall_seconds += found.seconds
        return found

    async def replies(self, inputs: Sequence[str]) -> list[Any]:
        """Return what a model answers to the target, a prompt, with each input in its place.

        Raises:
            CrashError: the prompt has no place for the input, or it was too much for the model.
            HostError: the operator's model failed.
        """
        prompt = self._files[self._task.definition.target[0]]
        if INPUT not in prompt:
            raise CrashError("no_input", f"the prompt needs the place of the input: {INPUT}")
        prompts = [prompt.replace(INPUT, one) for one in inputs]
        if self._task.model:
            await self.begin()
            return (await self.calls([("answer", [text]) for text in prompts]))[0]
        role = self._task.definition.experiment.role
        asked = [[ChatMessage(role="user", content=text)] for text in prompts]
        return [(await self._host.ask(role, messages)).content for messages in asked]


class _Room:
    """What the answers of one request may still have."""

    def __init__(self) -> None:
        self._bytes, self._text = MOST_TOGETHER, MOST_TEXT

    def take(self, body: bytes) -> None:
        """Count an answer before it is read.

        Raises:
            ValueError: it is not the bytes of a value.
            CrashError: it is one too many.
        """
        self._bytes -= len(body)
        self._text -= values.document_size(body)
        if self._bytes < 0:
            raise CrashError("too_long_answer", f"{MOST_TOGETHER} bytes are allowed for all answers together")
        if self._text < 0:
            raise CrashError(
                "too_long_answer",
                f"{MOST_TEXT} bytes of JSON are allowed for all answers of one request; for more, return "
                "bytes or arrays",
            )


def _answers(found: Answers, wanted: int, room: _Room) -> list[Any]:
    """Return the values of answers.

    Raises:
        CrashError: one is an error or nonsense, there are too few, or they are too long.
    """
    results = []
    for body in found.bodies:
        try:
            room.take(body)
            answer = values.unpack(body)
        except ValueError as error:
            raise CrashError("no_answer", str(error)) from error
        if not isinstance(answer, dict) or ("value" not in answer and "error" not in answer):
            raise CrashError("no_answer", "it did not answer in the driver's form")
        if "error" in answer:
            raise CrashError(crash_class(str(answer["error"])), str(answer["error"])[-SHOWN:])
        results.append(answer["value"])
    if len(results) < wanted:
        raise CrashError(crash_class(found.log, found.ended), f"{found.log[-SHOWN:]}\n{found.ended}".strip())
    return results


def crash_class(text: str, ended: str = "") -> str:
    """Return the class of a crash, by the last lines that it left and by how the process ended."""
    if ended == "its time was over":
        return "timeout"
    if ended.startswith("its answer") or ended.startswith("it wrote"):
        return "too_long_answer"
    last = "\n".join(text.strip().splitlines()[-2:])
    for kind, pattern in CLASSES:
        if re.search(pattern, last):
            return kind
    if ended == "signal 11":
        return "segfault"
    return "killed" if ended.startswith("signal") else "exception" if text.strip() else "no_answer"


@cache
def drivers() -> Mapping[str, bytes]:
    return {path.name: path.read_bytes() for path in INSIDE.glob("*.py") if path.name != "__init__.py"}
