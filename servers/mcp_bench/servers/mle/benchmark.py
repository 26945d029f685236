"""The benchmark of competitions: an agent gets data and a shell, and leaves a submission."""

from __future__ import annotations

import random
from hashlib import sha256

from mcp_bench.servers.contracts import JSON, Reference, Replay, Task, ToolCall, ToolResult
from mcp_bench.servers.errors import SandboxError, SandboxLostError
from mcp_bench.servers.grading import AssertionResult, Grade, Score, partial_credit
from mcp_bench.servers.host import NO_HOST, Host
from mcp_bench.servers.mle.competition import Competition, Data
from mcp_bench.servers.mle.competitions import COMPETITIONS
from mcp_bench.servers.mle.submission import MOST_BYTES, SubmissionError, parsed
from mcp_bench.servers.needs import SANDBOX
from mcp_bench.servers.sandbox import Sandbox, SandboxLimits, SandboxSpec
from mcp_bench.servers.secret import PRIVATE, made_secret, read_secret
from mcp_bench.servers.worlds.object_tool import object_tool
from mcp_bench.servers.worlds.shell_world import BASH, ShellWorld
from mcp_bench.servers.worlds.simple import SimpleBenchmark

LISTED = 5
"""Numbers of each competition in a split. Each has data of its own."""
SUBMISSION = "/work/submission.csv"
LIMITS = SandboxLimits(memory=2048 << 20, storage=512 << 20, processes=128)
PROMPT = """\
{title} {about}
/work/train.csv has {trained} rows with the columns {columns} and {target}. /work/test.csv has {asked} rows
with id and the same columns but for {target}. Write your predictions into {file}: the header `id,{target}`,
then a line for each row of test.csv. They are scored by {metric} ({better} is better) against labels that are
not on this machine. Medals: {medals}. Reach gold. Only Python's standard library is there."""
CHECK = object_tool(
    "check_submission",
    "Say whether /work/submission.csv has the right form. It does not say how good it is.",
)


class Mle(SimpleBenchmark):
    """Three competitions. The labels to predict never enter a sandbox."""

    name = "mle"
    summary = "Machine-learning competitions on generated data: a metric, medals, hidden labels."
    replay: Replay = "none"
    private_splits = (PRIVATE,)
    toolset = (*ShellWorld.toolset, CHECK)

    def ids(self, split: str) -> list[str]:
        return [f"{name}.{split}.{number}" for number in range(LISTED) for name in COMPETITIONS]

    def make_task(self, task_id: str) -> Task | None:
        name, _, rest = task_id.partition(".")
        split = rest.partition(".")[0]
        if split not in (*self.splits, *self.private_splits) or task_id not in self.ids(split):
            return None
        competition, data = COMPETITIONS[name], self._data(task_id)
        metric = competition.metric
        steps = ", ".join(f"{medal} {at:.4g}" for medal, at in competition.thresholds(data).items())
        prompt = PROMPT.format(
            title=competition.title,
            about=competition.about,
            columns=", ".join(data.columns),
            target=competition.target,
            trained=data.trained,
            asked=len(data.asked),
            metric=metric.name,
            better=metric.better,
            medals=steps,
            file=SUBMISSION,
        )
        return Task(
            id=task_id, benchmark=self.name, prompt=prompt, split=split, domain=name, needs=(SANDBOX,)
        )

    async def make_world(self, task_id: str, seed: int, host: Host = NO_HOST) -> MleWorld:
        """Return a new world. Everything follows from the id, so `seed` changes nothing."""
        competition, data = COMPETITIONS[task_id.partition(".")[0]], self._data(task_id)
        sandbox = await host.sandbox(SandboxSpec(limits=LIMITS))
        head = ",".join(data.columns)
        known = zip(data.rows[: data.trained], data.truth[: data.trained], strict=True)
        asked = zip(data.asked, data.rows[data.trained :], strict=True)
        trained = "".join(f"{','.join(row)},{label:g}\n" for row, label in known)
        await sandbox.write("/work/train.csv", f"{head},{competition.target}\n{trained}".encode())
        rows = "".join(f"{number},{','.join(row)}\n" for number, row in asked)
        await sandbox.write("/work/test.csv", f"id,{head}\n{rows}".encode())
        return MleWorld(sandbox, competition, data)

    def reference(self, task_id: str) -> Reference:
        self.task(task_id)
        solution = COMPETITIONS[task_id.partition(".")[0]].solution
        command: JSON = f"cd /work && python3 - <<'PY'\n{solution}PY"
        return Reference(
            calls=(ToolCall(name=BASH.name, arguments={"command": command, "seconds": 300}),), answer="Done."
        )

    def prepare_split(self, split: str) -> str | None:
        """Create the secret of the private split on its first use.

        Raises:
            SecretError: it cannot be written.
        """
        return made_secret(self.name) if split == PRIVATE else None

    def _data(self, task_id: str) -> Data:
        name, split, _ = task_id.split(".")
        secret = read_secret(self.name).hex() if split == PRIVATE else ""
        digest = sha256(f"{self.version} {secret} {task_id}".encode()).digest()
        return COMPETITIONS[name].draw(random.Random(digest))  # noqa: S311 - not for secrets


class MleWorld(ShellWorld):
    """One attempt. Its submission is read as data, on the trusted side."""

    toolset = Mle.toolset

    def __init__(self, sandbox: Sandbox, competition: Competition, data: Data) -> None:
        super().__init__(sandbox)
        self.submission = ""
        """What was scored, in the sealed state."""
        self._competition = competition
        self._data = data

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        if name != CHECK.name:
            return await super().call(name, arguments)
        try:
            await self._predictions()
        except (SubmissionError, SandboxError) as error:
            return ToolResult(text=str(error), is_error=True)
        return ToolResult(text="The submission has the right form.")

    async def grade(self, answer: str) -> Grade:
        await self.sandbox.halt()
        left = {"/" + change.path.lstrip("/"): change for change in await self.sandbox.changes()}
        await self.sandbox.renew()
        fault, predicted, self.submission = "", None, ""  # the agent may have had another one checked
        try:
            found = left.get(SUBMISSION)
            if found is not None and found.kind != "file":
                raise SubmissionError(f"{SUBMISSION} is no file of its own but a {found.kind}")
            predicted = await self._predictions()
        except SandboxLostError:
            raise
        except (SubmissionError, SandboxError) as error:
            fault = str(error)
        return self._graded(predicted, fault)

    async def _predictions(self) -> dict[str, float]:
        """Return the predictions by id.

        Raises:
            SubmissionError: the submission is not as it must be.
            SandboxError: it cannot be read.
        """
        metric = self._competition.metric
        data = await self.sandbox.read(SUBMISSION, most=MOST_BYTES)
        ids = self._data.asked.keys()
        target = self._competition.target
        found = parsed(data, target, ids, lowest=metric.lowest, highest=metric.highest)
        self.submission = data.decode("ascii")
        return found

    def _graded(self, predicted: dict[str, float] | None, fault: str) -> Grade:
        metric, steps = self._competition.metric, self._competition.thresholds(self._data)
        score = None
        if predicted is not None:
            asked = self._data.asked
            value = metric.score([predicted[number] for number in asked], list(asked.values()))
            start = self._competition.baseline(self._data)
            score = Score(
                name=metric.name,
                value=value,
                better=metric.better,
                unit=metric.unit,
                baseline=start,
                par=steps["gold"],
            )
        sign = 1 if metric.better == "higher" else -1
        reached = {m: score is not None and sign * score.value >= sign * at for m, at in steps.items()}
        detail = f"not scored: {fault}" if fault else ""
        checks = tuple(AssertionResult(name=m, passed=ok, detail=detail) for m, ok in reached.items())
        strict = all(check.passed for check in checks)
        return Grade(
            partial=partial_credit(checks, strict=strict),
            strict=strict,
            assertions=checks,
            score=score,
            metrics={"medals": float(sum(reached.values())), "valid": float(predicted is not None)},
            grader_version=self.grader_version,
        )
