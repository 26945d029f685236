"""The world of a task folder: a shell in the task's environment, and its hidden tests at the end."""

from __future__ import annotations

from typing import Literal

from mcp_bench.servers.contracts import JSON
from mcp_bench.servers.grading import AssertionResult, Grade, partial_credit
from mcp_bench.servers.harbor.demands import REWARD, Demands, passed, reward_of, tested
from mcp_bench.servers.harbor.folder import TaskFolder
from mcp_bench.servers.hidden_tests.fresh import left
from mcp_bench.servers.sandbox import Sandbox
from mcp_bench.servers.worlds.shell_world import ShellWorld

SHOWN = 4000


class HarborWorld(ShellWorld):
    """One task. `grade` ends every process of the agent and runs the task's tests over what it left."""

    def __init__(
        self, sandbox: Sandbox, task: TaskFolder, demands: Demands | None, base: str, workdir: str
    ) -> None:
        super().__init__(sandbox)
        self.changes: list[JSON] = []
        """What the agent left, in the sealed state."""
        self.tests_printed = ""
        self.base = base
        """Not the image that the task's Dockerfile names, if it is `host`."""
        self.task_digest = task.digest()
        self._task, self._demands, self._workdir = task, demands, workdir

    async def grade(self, answer: str) -> Grade:
        self.changes = self.changes or await left(self.sandbox)
        run = await tested(self._task, self._workdir, self.sandbox)
        self.tests_printed = run.result.output[-SHOWN:]
        reward = reward_of(run)
        good = set(passed(run))
        demands = self._demands or Demands(tests=tuple(run.outcomes or ()), reward=1.0)
        why = "there is no signed report: pytest did not come to its end" if run.outcomes is None else ""
        checks: list[AssertionResult] = []
        kind: Literal["objective", "guardrail"]
        for name in demands.tests:
            kind = "guardrail" if name in demands.before else "objective"
            outcome = (run.outcomes or {}).get(name, "missing")
            detail = "" if name in good else why or f"its outcome: {outcome}"
            checks.append(AssertionResult(name=name, passed=name in good, kind=kind, detail=detail))
        if self._task.format == "harbor":
            least = min(1.0, demands.reward or 1.0)
            enough = reward is not None and reward >= least
            detail = "" if enough else f"the script wrote {reward}, and {least:g} for the shipped solution"
            # besides tests it earns nothing: the script may have written it for a test run that was cut off
            kind = "guardrail" if demands.tests else "objective"
            checks.append(AssertionResult(name=REWARD, passed=enough, kind=kind, detail=detail))
        return self._grade(checks, {} if reward is None else {REWARD: reward})

    def _grade(self, checks: list[AssertionResult], metrics: dict[str, float]) -> Grade:
        strict = bool(checks) and all(check.passed for check in checks)
        return Grade(
            partial=partial_credit(checks, strict=strict),
            strict=strict,
            assertions=tuple(checks),
            metrics=metrics,
            grader_version=self.grader_version,
        )
