"""The world of an improvement task: edit the target, run the experiment, look at what came back, submit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from random import Random, SystemRandom

from mcp_bench.servers.contracts import JSON, ToolResult
from mcp_bench.servers.errors import suggestion
from mcp_bench.servers.grading import Grade
from mcp_bench.servers.host import NO_HOST, Host
from mcp_bench.servers.improve.candidate import Candidate
from mcp_bench.servers.improve.estimate import BASELINE, CANDIDATE, REFERENCE, gain, value
from mcp_bench.servers.improve.held_out import VERSION, Evidence, graded
from mcp_bench.servers.improve.kept import Kept
from mcp_bench.servers.improve.measure import CLOCKED, measure
from mcp_bench.servers.improve.task_file import ImproveTask
from mcp_bench.servers.improve.versions import Files, Version, Versions
from mcp_bench.servers.sandbox import Sandbox
from mcp_bench.servers.worlds.lines import lines_of
from mcp_bench.servers.worlds.object_tool import object_tool
from mcp_bench.servers.worlds.simple import SimpleWorld, whole_numbers

SHOWN_CHARACTERS = 30_000
OF_THE_MACHINE = ("timeout", "over_limit")
"""Classes of crashes that a busy machine can cause, too: the same files can be run again."""


_PATH: JSON = {"type": "string", "description": "Name of a file of the target."}
_VERSION: JSON = {"type": "integer", "minimum": 0, "description": "Number of a version; 0 is the baseline."}
READ = object_tool(
    "read",
    "Read a file of the target, or list its files.",
    path=_PATH,
    first={"type": "integer", "minimum": 1, "description": "First line. Default: 1."},
    lines={"type": "integer", "minimum": 1, "description": "Number of lines. Default: all."},
)
EDIT = object_tool(
    "edit",
    "Replace a text in a file. It must be there exactly once.",
    ("path", "old", "new"),
    path=_PATH,
    old={"type": "string", "minLength": 1},
    new={"type": "string"},
)
WRITE = object_tool("write", "Write a whole file.", ("path", "text"), path=_PATH, text={"type": "string"})
RUN = object_tool(
    "run",
    "Run the experiment with the files as they are. Returns the metric with its 95 % interval, compared with "
    "the baseline on the same items. Where processor time is measured, running the same files again makes "
    "the interval narrower.",
    note={"type": "string", "description": "What was changed, for the history."},
)
HISTORY = object_tool(
    "history",
    "List the versions that were run, with what came back.",
    order={"type": "string", "enum": ["newest", "best"], "description": "Default: newest."},
    limit={"type": "integer", "minimum": 1, "description": "Default: 10."},
)
RESTORE = object_tool(
    "restore", "Go back to the files of an earlier version.", ("version",), version=_VERSION
)
SUBMIT = object_tool(
    "submit",
    "End the attempt with a version. It is measured again on other data. Default: the files as they are.",
    version=_VERSION,
)


class ImproveWorld(SimpleWorld):
    """One attempt at a task. Public attributes are in the sealed state."""

    toolset = (READ, EDIT, WRITE, RUN, HISTORY, RESTORE, SUBMIT)
    grader_version = VERSION

    def __init__(
        self,
        task: ImproveTask,
        task_id: str,
        seed: int,
        sandboxes: Mapping[str, Sandbox],
        host: Host = NO_HOST,
    ) -> None:
        self.files: dict[str, str] = dict(task.baseline)
        self.submitted: int | None = None
        self.runs = 0
        self.crashes = 0
        self.gains: list[float] = []
        self._task, self._sandboxes, self._host = task, sandboxes, host
        self._named = f"{task_id} {seed}"
        self._versions = Versions(task.baseline)
        self._used_seconds = 0.0
        self._baseline: dict[str, list[float]] = {}
        """Its samples of the search, where no clock is read: the items are the same in each run."""
        shared = task.definition.share == "home"
        self._kept = Kept(task, task_id, seed, sandboxes[BASELINE].enforced) if shared else None
        self._deadline = time.monotonic() + task.definition.budget.seconds
        self._evidence: Evidence | None = None

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        arguments = whole_numbers(arguments)
        match name:
            case "read":
                return self._read(arguments)
            case "edit" | "write":
                return self._change(name, {key: str(text) for key, text in arguments.items()})
            case "run":
                return await self._run(str(arguments.get("note", "")))
            case "history":
                return self._history(str(arguments.get("order", "newest")), arguments.get("limit", 10))
        number = arguments.get("version")
        chosen = self._version(number) if isinstance(number, int) else None
        if isinstance(number, int) and chosen is None:
            return _refused(f"There is no version {number}: the last is {self._versions.all[-1].number}.")
        if name == "restore":
            assert chosen is not None  # noqa: S101 - the schema demands it
            self.files = dict(chosen.files)
            return ToolResult(text=f"The files are those of {chosen.words()}.")
        self.submitted = (chosen or self._versions.add(self.files, "")).number
        return ToolResult(text="Submitted.", done=True)

    def _version(self, number: int) -> Version | None:
        return self._versions.all[number] if number < len(self._versions.all) else None

    def _read(self, arguments: dict[str, JSON]) -> ToolResult:
        texts = {**self._task.readonly, **self.files}
        if "path" not in arguments:
            words = [
                f"{name} ({len(lines_of(text))} lines{'' if name in self.files else ', read-only'})"
                for name, text in texts.items()
            ]
            return ToolResult(text="\n".join(words))
        path = str(arguments["path"])
        if path not in texts:
            return _refused(f"There is no file {path!r}{suggestion(path, texts)}.")
        rows = lines_of(texts[path])
        first, count = arguments.get("first"), arguments.get("lines")
        start = first - 1 if isinstance(first, int) else 0
        chosen = "".join(rows[start : start + count if isinstance(count, int) else None])
        if (extra := len(chosen) - SHOWN_CHARACTERS) > 0:
            chosen = f"{chosen[:SHOWN_CHARACTERS]}\n[{extra} more characters: read fewer lines]"
        return ToolResult(text=chosen)

    def _change(self, name: str, given: Mapping[str, str]) -> ToolResult:
        path = given["path"]
        if path not in self.files:
            why = "is read-only" if path in self._task.readonly else "is no file of the target"
            return _refused(f"{path!r} {why}{suggestion(path, self.files)}.")
        text = given.get("text", "")
        if name == "edit":
            found = self.files[path].count(given["old"])
            if found != 1:
                return _refused(f"The text is there {found} times, not once.")
            text = self.files[path].replace(given["old"], given["new"])
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            return _refused("Nothing was changed: the text has half a character (a lone surrogate).")
        most = self._task.definition.max_bytes
        size = sum(len(other.encode()) for other in {**self.files, path: text}.values())
        if size > most:
            return _refused(
                f"Nothing was changed: the files would have {size} bytes, and {most} are allowed."
            )
        self.files[path] = text
        return ToolResult(text="Replaced." if name == "edit" else "Written.")

    async def _run(self, note: str) -> ToolResult:
        budget = self._task.definition.budget
        if self.runs >= budget.runs:
            return _refused(f"All {budget.runs} runs are used. Submit a version.")
        if time.monotonic() > self._deadline:
            return _refused(f"The {budget.seconds} s of this attempt are over. Submit a version.")
        if budget.processor_seconds is not None and self._used_seconds >= budget.processor_seconds:
            return _refused(f"All {budget.processor_seconds:g} s of processors are used. Submit a version.")
        version = self._versions.add(self.files, note)
        before = version.novelty if version.number else 0.0
        if version.crash and version.metric is None and version.crash_class not in OF_THE_MACHINE:
            return ToolResult(text=f"The same files crashed before.\n{version.crash}", is_error=True)
        clock = self._task.definition.experiment.kind in CLOCKED
        if clock or version.metric is None:
            self.runs += 1
            await self._search(version, clock=clock)
            best = self._versions.best()
            self.gains.append(0.0 if best is None or best.gain is None else max(0.0, best.gain.value))
        left = f"{budget.runs - self.runs} of {budget.runs} runs are left."
        if version.crash:
            self.crashes += 1
            kept = "" if version.metric is None else f"What was measured before stays: {version.words()}.\n"
            return ToolResult(text=f"{version.crash}\n{kept}{left}", is_error=True)
        return ToolResult(text="\n".join([*self._feedback(version, clock=clock, novelty=before), left]))

    async def _search(self, version: Version, *, clock: bool) -> None:
        """Measure a version on data of the search. Clocks get fresh inputs, and samples are pooled.

        Where the task shares samples, those of other attempts come first; other kinds then need no run.
        """
        if self._kept is not None and not version.samples:
            version.samples = self._kept.read(version.files)
            if version.samples and not clock:
                self._estimate(version, clock=clock)
                return
        number = f" {len(version.samples.get(CANDIDATE, ()))} {version.number}" if clock else ""
        rng = Random(f"search {self._named}{number}")  # noqa: S311 - not for secrets
        files = {} if self._baseline else {BASELINE: self._task.baseline}
        candidates = self._candidates({**files, CANDIDATE: version.files})
        found = await measure(self._task, candidates, rng, "search")
        self._used_seconds += candidates[CANDIDATE].used_seconds
        measured = {**self._baseline, **found.values}
        if not clock:
            self._baseline = {BASELINE: measured[BASELINE]}
        if CANDIDATE in found.crashes:
            crash = found.crashes[CANDIDATE]
            version.crash = f"{crash.kind}\n{crash.text}".strip()
            if crash.kind not in OF_THE_MACHINE:
                version.metric = version.gain = None
            return
        version.crash = ""
        for name, values in measured.items():
            version.samples[name] = [*version.samples.get(name, ()), *values]
        if self._kept is not None:
            self._kept.add(version.files, measured)
        self._estimate(version, clock=clock)

    def _estimate(self, version: Version, *, clock: bool) -> None:
        metric = self._task.definition.metric
        version.metric = value(metric, version.samples, CANDIDATE, clock=clock)
        version.gain = gain(metric, version.samples, CANDIDATE, clock=clock)

    def _candidates(self, files: Mapping[str, Files]) -> dict[str, Candidate]:
        return {
            name: Candidate(self._task, texts, self._sandboxes[name], self._host)
            for name, texts in files.items()
        }

    def _feedback(self, version: Version, *, clock: bool, novelty: float) -> list[str]:
        definition = self._task.definition
        metric, estimate, better = definition.metric, version.metric, version.gain
        assert estimate is not None  # noqa: S101 - the caller has looked
        assert better is not None  # noqa: S101
        base = value(metric, version.samples, BASELINE, clock=clock)
        lines = [
            f"Version {version.number}: {metric.name} {estimate.value:.5g} {metric.unit} "
            f"[{estimate.low:.5g}, {estimate.high:.5g}], {metric.direction}d; "
            f"the baseline has {base.value:.5g}.",
            "It is better than the baseline."
            if better.low > 0
            else "It is worse than the baseline."
            if better.high < 0
            else "It cannot be distinguished from the baseline.",
        ]
        kind = "log-ratio" if metric.scale == "log" else "difference"
        interval = f"{better.value:.4g} [{better.low:.4g}, {better.high:.4g}]"
        lines.insert(1, f"Gain over the baseline: {interval} ({kind}).")
        if version.number and novelty < 0.01:
            lines.append("The same program was tried before, but for comments and layout.")
        best = self._versions.best()
        if best is not None and best is not version and best.metric is not None:
            lines.append(f"Best so far: {best.words()}.")
        return lines

    def _history(self, order: str, limit: JSON) -> ToolResult:
        versions = list(reversed(self._versions.all))
        if order == "best":
            versions.sort(key=lambda version: -version.gain.low if version.gain else float("inf"))
        return ToolResult(text="\n".join(version.words() for version in versions[: int(str(limit))]))

    async def grade(self, answer: str) -> Grade:
        """Measure the chosen version, the baseline and the reference together on data drawn now."""
        if self._evidence is None:
            self._evidence = await self._held_out(self._chosen())
        return graded(self._task, self._evidence)

    async def _held_out(self, chosen: Version) -> Evidence:
        task, samples, crash, clock = self._task, dict[str, list[float]](), "", ""
        self.files = dict(chosen.files)
        if chosen.number:
            files = {BASELINE: task.baseline, REFERENCE: task.reference, CANDIDATE: chosen.files}
            found = await measure(task, self._candidates(files), SystemRandom(), "grade")
            samples, crash = found.values, str(found.crashes.get(CANDIDATE, ""))
            clock = found.clock
        return Evidence(
            chosen=chosen.number,
            novelty=chosen.novelty,
            runs=self.runs,
            crashes=self.crashes,
            samples=samples,
            clock=clock,
            crash=crash,
            gains=self.gains,
            search=chosen.samples if chosen.gain is not None else {},
        )

    async def snapshot(self) -> JSON:
        """Return the files, every version with its samples, and what the grade follows from."""
        state: dict[str, JSON] = {
            "files": dict(self.files),
            "submitted": self.submitted,
            "runs": self.runs,
            "crashes": self.crashes,
            "gains": list(self.gains),
            "versions": [version.stored() for version in self._versions.all],
        }
        return state if self._evidence is None else {**state, **self._evidence.model_dump(mode="json")}

    def _chosen(self) -> Version:
        """Return the submitted version, else the best one by search, else the files as they are."""
        if self.submitted is not None:
            return self._versions.all[self.submitted]
        return self._versions.best() or self._versions.add(self.files, "")


def _refused(text: str) -> ToolResult:
    return ToolResult(text=text, is_error=True)
