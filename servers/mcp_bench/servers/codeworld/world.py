"""The world of a codeworld task: a shell, and checks in a fresh sandbox."""

from __future__ import annotations

from typing import Literal

from mcp_bench.servers.codeworld.case import SHOWN, Case, Check
from mcp_bench.servers.contracts import JSON
from mcp_bench.servers.errors import SandboxError
from mcp_bench.servers.grading import AssertionResult, Grade, partial_credit
from mcp_bench.servers.hidden_tests.fresh import left
from mcp_bench.servers.sandbox import Sandbox
from mcp_bench.servers.worlds.shell_world import ShellWorld

PLACE = "/check"


class CodeWorldWorld(ShellWorld):
    """One task. `grade` ends every process of the agent and checks what it left."""

    def __init__(self, sandbox: Sandbox, case: Case, grader_version: str) -> None:
        super().__init__(sandbox)
        self.changes: list[JSON] = []
        """What the agent left, in the sealed state."""
        self._ended = False
        self._case = case
        self.grader_version = grader_version

    @classmethod
    async def opened(cls, sandbox: Sandbox, case: Case, grader_version: str) -> CodeWorldWorld:
        """Return a world whose sandbox has the task's files.

        Raises:
            SandboxError: the sandbox failed.
        """
        for path, text in case.files.items():
            await sandbox.write(f"/work/{path}", text.encode())
        if case.setup:
            done = await sandbox.run(f"cd /work && ({case.setup})")
            if done.code:
                raise SandboxError(f"the task could not be set up: {done.output[-SHOWN:]}")
        await sandbox.run("cd /work")
        return cls(sandbox, case, grader_version)

    async def grade(self, answer: str) -> Grade:
        if not self._ended:
            self.changes = await left(self.sandbox)
            await self.sandbox.commit(trusted=False)  # what each check begins with
            self._ended = True
        checks = tuple([await self._checked(check) for check in self._case.checks])
        strict = all(check.passed for check in checks)
        return Grade(
            partial=partial_credit(checks, strict=strict),
            strict=strict,
            assertions=checks,
            grader_version=self.grader_version,
        )

    async def _checked(self, check: Check) -> AssertionResult:
        """Run a check in a fresh sandbox, in which no process and no file of an earlier one is left."""
        files = {name: text.encode() for name, text in (check.files or {}).items()}
        mounts = {PLACE: files} if files else None
        await self.sandbox.renew(mounts, fresh=True)
        if check.processor_seconds:
            fault = await self._counted(check)
        else:
            done = await self.sandbox.run(check.command, seconds=check.seconds)
            fault = "its time was over" if done.timed_out else check.fault(done.output)
        kind: Literal["objective", "guardrail"] = "guardrail" if check.guards else "objective"
        return AssertionResult(name=check.name, passed=not fault, kind=kind, detail=fault)

    async def _counted(self, check: Check) -> str:
        """Return what is wrong with a check's program, which has a limit of processor time, or nothing."""
        ready = await self.sandbox.start(check.command.split(), seconds=check.seconds, alone=False)
        if ready.ended:
            return ready.ended
        done = await self.sandbox.ask([b""], seconds=check.processor_seconds)
        if not done.bodies:
            return f"{done.ended} ({check.processor_seconds:g} s of processors are allowed)"
        return check.fault(done.bodies[0].decode(errors="replace"))
