"""The benchmark of proofs: an agent gets definitions and statements, and a shell with Coq."""

from __future__ import annotations

import re
from importlib.resources import files

from mcp_bench.servers.contracts import JSON, Limits, Reference, Replay, Task, ToolCall
from mcp_bench.servers.errors import SandboxError, SandboxLostError
from mcp_bench.servers.grading import AssertionResult, Grade, partial_credit
from mcp_bench.servers.host import NO_HOST, Host
from mcp_bench.servers.needs import SANDBOX
from mcp_bench.servers.proofs.judge import MOST_BYTES, Judge
from mcp_bench.servers.sandbox import Sandbox, SandboxLimits, SandboxSpec
from mcp_bench.servers.worlds.shell_world import WRITE_FILE, ShellWorld
from mcp_bench.servers.worlds.simple import SimpleBenchmark

SPLITS = {
    "train": ("logic", "trees", "reversal", "runs"),
    "dev": ("folds", "binary"),
    "test": ("sums", "fibonacci", "compiler", "insertion-sort", "search-tree", "parity"),
}
"""No two splits share a definition."""
SPLIT = {name: split for split, names in SPLITS.items() for name in names}
PROBLEMS = files(__package__) / "problems"
SOLUTION = "/work/Solution.v"
HEAD = (
    "From Coq Require Import Arith Lia List Bool.\nImport ListNotations.\nFrom Task Require Import Problem.\n"
)
LIMITS = SandboxLimits(memory=2048 << 20, storage=256 << 20, processes=64)
GRADE_SECONDS = 900.0
PROMPT = (
    "/work/Problem.v has definitions and the statements {statements}: {about} Prove them in "
    "/work/Solution.v, which already has `Theorem part1 : Problem.part1.` and so on, each without a proof. "
    "Compile with `coqc -Q . Task Problem.v`, then `coqc -Q . Task Solution.v`. You may add lemmas and "
    "definitions, and require any module of Coq's standard library, but no axiom may be used, the file must "
    "stand alone, and it has at most {kib} KiB. These words may not be in it, not even in a comment: Module, "
    "Load, Cd, Drop, Extraction, Redirect, Add LoadPath, Print Universes, Set Silent, bypass_check. "
    "Each proved statement counts; one that you cannot prove may stay `Admitted`."
)


def parts(name: str) -> list[str]:
    """Return the names of a problem's statements, in order."""
    return re.findall(r"^Definition (part\d+) : Prop", problem(name), re.MULTILINE)


def problem(name: str) -> str:
    return (PROBLEMS / f"{name}.v").read_text()


class Proofs(SimpleBenchmark):
    """Twelve problems, each with three statements."""

    name = "proofs"
    summary = "Prove theorems in Coq: lists, trees, numbers, a compiler, sorting, logic."
    replay: Replay = "none"
    toolset = ShellWorld.toolset

    def ids(self, split: str) -> tuple[str, ...]:
        return SPLITS[split]

    def make_task(self, task_id: str) -> Task | None:
        if task_id not in SPLIT:
            return None
        about = problem(task_id).partition("(*")[2].partition("*)")[0].strip()
        words = PROMPT.format(
            statements=" and ".join((f"{', '.join(parts(task_id)[:-1])}", parts(task_id)[-1])),
            about=about[0].lower() + about[1:],
            kib=MOST_BYTES >> 10,
        )
        return Task(
            id=task_id,
            benchmark=self.name,
            prompt=words,
            split=SPLIT[task_id],
            domain="proof",
            needs=(SANDBOX, "program:coqc", "program:coqchk"),
            limits=Limits(grade_seconds=GRADE_SECONDS),
        )

    async def make_world(self, task_id: str, seed: int, host: Host = NO_HOST) -> ProofsWorld:
        """Return a new world: a sandbox for the agent, and one for the judge, where no agent has been."""
        sandbox = await host.sandbox(SandboxSpec(limits=LIMITS))
        judge = Judge(await host.sandbox(SandboxSpec(limits=LIMITS)), problem(task_id), parts(task_id))
        given = HEAD + "".join(
            f"\nTheorem {part} : Problem.{part}.\nProof.\nAdmitted.\n" for part in judge.parts
        )
        await sandbox.write("/work/Problem.v", judge.problem.encode())
        await sandbox.write(SOLUTION, given.encode())
        return ProofsWorld(sandbox, judge)

    def reference(self, task_id: str) -> Reference:
        self.task(task_id)
        text = (PROBLEMS / f"{task_id}.solution.v").read_text()
        arguments: dict[str, JSON] = {"path": SOLUTION, "text": text}
        return Reference(calls=(ToolCall(name=WRITE_FILE.name, arguments=arguments),), answer="Done.")


class ProofsWorld(ShellWorld):
    """One attempt. Only the text of Solution.v leaves the agent's sandbox."""

    def __init__(self, sandbox: Sandbox, judge: Judge) -> None:
        super().__init__(sandbox)
        self.solution = ""
        """What was judged, in the sealed state."""
        self._judge = judge

    async def grade(self, answer: str) -> Grade:
        await self.sandbox.halt()
        await self.sandbox.renew()
        try:
            data = await self.sandbox.read(SOLUTION, most=MOST_BYTES)
        except SandboxLostError:
            raise
        except SandboxError as error:
            faults = dict.fromkeys(self._judge.parts, str(error))
        else:  # an error of the judge's sandbox, unless the proof ended it, makes the episode invalid
            self.solution = data.decode("utf-8", "replace")
            faults = await self._judge.faults(self.solution)
        checks = tuple(
            AssertionResult(name=f"{part} is proved", passed=not fault, detail=fault)
            for part, fault in faults.items()
        )
        strict = all(check.passed for check in checks)
        return Grade(
            partial=partial_credit(checks, strict=strict),
            strict=strict,
            assertions=checks,
            grader_version=self.grader_version,
        )
