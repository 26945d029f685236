"""The judge of a proof: compiles it in a sandbox that the agent never had, and asks Coq what it rests on.

Only the text of the proof comes in, so no compiled file, plugin or load path of the agent's exists there. Coq
executes what a text says while it compiles it, so afterwards

1. nothing but the compiled proof may have changed in the sandbox;
2. the statements are compiled and mounted read-only, and each proof must have its statement's type;
3. `coqchk` checks the compiled proof again, with the kernel alone;
4. `Print Assumptions` must find nothing: no axiom, no admitted lemma, no type-in-type, no unguarded
   recursion.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mcp_bench.servers.errors import SandboxError, SandboxLostError
from mcp_bench.servers.sandbox import Sandbox

MOST_BYTES = 256 << 10
SECONDS = 120.0
"""For one command. Reference proofs take 3 s on a busy machine."""
SHOWN = 300
TASK, ANSWER, CHECK = "/judge/task", "/judge/answer", "/judge/check"
PATHS = f"-q -Q {TASK} Task -Q {ANSWER} Answer"
CLOSED = "Closed under the global context"
FORBIDDEN = re.compile(
    r"\b(Declare\s+ML\s+Module|(?:Recursive\s+|Separate\s+)?Extraction|Redirect|Load|Cd|Add\s+(?:Rec\s+)?LoadPath|Add\s+ML\s+Path"
    r"|Print\s+Universes|bypass_check|Unset\s+(?:Guard|Positivity|Universe)\s+Checking|Set\s+Silent|Drop|Module)\b"
)
"""Commands that reach outside of a proof. The checks after them would find most; a clear word is better."""
CACHES = ("/.lia.cache", "/.nia.cache", "/.nra.cache")
"""What tactics for arithmetic write. The checks run without any file that compiling left."""


class Judge:
    """Judges one proof.

    Args:
        sandbox: a fresh one.
        problem: the text of the statements.
        parts: the names of the statements.
    """

    def __init__(self, sandbox: Sandbox, problem: str, parts: Sequence[str]) -> None:
        self.problem = problem
        self.parts = tuple(parts)
        self.sandbox = sandbox

    async def faults(self, solution: str) -> dict[str, str]:
        """Return for each statement what is wrong with its proof, or nothing.

        Raises:
            SandboxError: the sandbox failed.
        """
        if found := FORBIDDEN.search(solution):
            return self._all(f"it uses `{found[0]}`, which a proof here must not")
        await self.sandbox.renew(fresh=True)  # what is left of an earlier proof is mounted read-only
        await self.sandbox.write(f"{TASK}/Problem.v", self.problem.encode())
        await self.sandbox.run(f"mkdir -p {ANSWER} {CHECK}")
        if fault := await self._coq(f"coqc -q -Q {TASK} Task {TASK}/Problem.v"):
            raise SandboxError(f"the problem does not compile: {fault}")
        statements = await self.sandbox.read(f"{TASK}/Problem.vo")
        await self.sandbox.write(f"{ANSWER}/Solution.v", solution.encode())
        before = await self._changed()
        if fault := await self._coq(f"coqc {PATHS} {ANSWER}/Solution.v"):
            return self._all(f"it does not compile: {fault}")
        changed = {path for path, _ in await self._changed() ^ before}
        if written := sorted(path for path in changed if not path.endswith(CACHES)):
            return self._all(f"compiling it changed files: {written[0]}")
        try:
            proof = await self.sandbox.read(f"{ANSWER}/Solution.vo")
        except SandboxLostError:
            raise
        except SandboxError as error:
            return self._all(f"the compiled proof cannot be read: {error}")
        checks = {f"{part}.v": _check([part]).encode() for part in self.parts}
        checks["every.v"] = _check(self.parts).encode()
        await self.sandbox.renew(
            {TASK: {"Problem.vo": statements}, ANSWER: {"Solution.vo": proof}, CHECK: checks}, fresh=True
        )
        if fault := await self._coq(
            f"coqchk -silent -Q {TASK} Task -Q {ANSWER} Answer -norec Answer.Solution"
        ):
            return self._all(f"coqchk refuses it: {fault}")
        if not await self._fault("every", len(self.parts)):
            return self._all("")
        return {part: await self._fault(part) for part in self.parts}

    async def _fault(self, check: str, count: int = 1) -> str:
        """Run one of the checks, in which `count` proofs must rest on nothing."""
        command = f"coqc {PATHS} -o /tmp/{check}.vo {CHECK}/{check}.v 2>&1"
        done = await self.sandbox.run(command, seconds=SECONDS)
        said = " ".join(done.output.split())
        if done.code == 0 and said == " ".join([CLOSED] * count):
            return ""
        return said[:SHOWN] or "its time was over"

    async def _coq(self, command: str) -> str:
        done = await self.sandbox.run(command, seconds=SECONDS)
        return "" if done.code == 0 else " ".join(done.output.split())[-SHOWN:] or f"exit code {done.code}"

    async def _changed(self) -> set[tuple[str, str]]:
        """Return what differs from the base, as paths with what is there, but for what compiling writes."""
        own = (f"{ANSWER}/Solution.", f"{ANSWER}/.Solution.")
        return {
            (change.path, f"{change.kind} {change.mode} {change.sha256} {change.target}")
            for change in await self.sandbox.changes()
            if not ("/" + change.path.lstrip("/")).startswith(own)
        }

    def _all(self, fault: str) -> dict[str, str]:
        return dict.fromkeys(self.parts, fault)


def _check(parts: Sequence[str]) -> str:
    """Return a file that compiles if the proofs have the statements' types. Names are absolute."""
    return "Require Task.Problem.\nRequire Answer.Solution.\n" + "".join(
        f"Definition judged_{part} : Task.Problem.{part} := Answer.Solution.{part}.\n"
        f"Print Assumptions judged_{part}.\n"
        for part in parts
    )
