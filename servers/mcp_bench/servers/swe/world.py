"""The world of a swe task: a shell beside a repository, and its tests in a sandbox that no agent has seen."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Callable, Mapping

from anyio import to_thread

from mcp_bench.servers.errors import SandboxError
from mcp_bench.servers.grading import AssertionResult, Grade, partial_credit
from mcp_bench.servers.hidden_tests.fresh import signed_run
from mcp_bench.servers.hidden_tests.tools import PLACE, RUNNER, runner
from mcp_bench.servers.sandbox import HOST_BASE, READ_BYTES, Sandbox
from mcp_bench.servers.swe.instance import Instance
from mcp_bench.servers.swe.repository import File, Tree, archive
from mcp_bench.servers.swe.solution import difference, edited, graded, new_modules
from mcp_bench.servers.worlds.shell_world import ShellWorld

ROOT = "/testbed"
"""Of the repository in a sandbox, as in SWE-bench's images."""
SITE = "/opt/swe/lib"
"""Packages that tests import, from the tasks' layer."""
TEST_SECONDS = 1800.0
MOST_FILES = 2000
MOST_BYTES = 64 << 20
"""Of all files that an agent wrote. Longer ones than a sandbox returns do not count."""
SHOWN = 300
Solved = Callable[[], Tree]
COMMIT = (
    "git init -q && git -c user.name=swe -c user.email=swe@localhost add -A -f && "
    "git -c user.name=swe -c user.email=swe@localhost commit -q -m 'The repository'"
)


class SweWorld(ShellWorld):
    """One task. The agent works in one sandbox; another one, which it never reaches, runs the tests."""

    def __init__(
        self, task: Instance, sandbox: Sandbox, verifier: Sandbox, tree: Tree, tests: Tree, solved: Solved
    ) -> None:
        super().__init__(sandbox)
        self.patch = ""
        """What the agent changed, in the sealed state."""
        self.test_output = ""
        self._task, self._verifier, self._tree, self._tests = task, verifier, tree, tests
        self._solved = solved
        self._grade: Grade | None = None

    @classmethod
    async def opened(
        cls, task: Instance, sandbox: Sandbox, verifier: Sandbox, tree: Tree, tests: Tree, solved: Solved
    ) -> SweWorld:
        """Return a world whose first sandbox has the repository.

        Args:
            tree: the repository's files.
            tests: the same with the hidden tests.
            solved: returns the same with the hidden tests and the solution.

        Raises:
            SandboxError: a sandbox failed, or no pytest is where the tests run.
        """
        await unpack(sandbox, tree)
        done = await sandbox.run(f"cd {ROOT} && {{ ! command -v git >/dev/null || {{ {COMMIT}; }}; }}")
        if done.code:
            raise SandboxError(f"the repository could not be set up: {done.output[-SHOWN:]}")
        done = await verifier.run(
            f"{python(task)} -c 'import sys; sys.path.insert(0, \"{SITE}\"); import pytest'"
        )
        if done.code:
            raise SandboxError(
                f"the tests of {task.instance_id} cannot run: no pytest is in the tasks' layer or "
                f"their base: {done.output[-SHOWN:]}"
            )
        return cls(task, sandbox, verifier, tree, tests, solved)

    async def grade(self, answer: str) -> Grade:
        if self._grade is None:
            self._grade = await self._graded()
        return self._grade

    async def _graded(self) -> Grade:
        await self.sandbox.halt()
        changes = await self.sandbox.changes()
        written, removed = edited(self._tree, changes, ROOT)
        if len(written) > MOST_FILES:
            return self._nothing(f"the agent wrote {len(written)} files; {MOST_FILES} are the most")
        sizes = {change.path.removeprefix(f"{ROOT}/"): change.size for change in changes}
        if (total := sum(sizes[path] for path in written if sizes[path] <= READ_BYTES)) > MOST_BYTES:
            return self._nothing(f"the agent wrote {total} bytes; {MOST_BYTES} are the most")
        await self.sandbox.renew()  # only reads from now on
        mine = {}
        for path, mode in written.items():
            try:
                mine[path] = File(mode, await self.sandbox.read(f"{ROOT}/{path}"))
            except SandboxError:  # too long, unreadable, or its name is no UTF-8: it does not count
                continue
        if len(mine) < len(written):
            await self.sandbox.run("true")  # the sandbox itself has not failed
        self.patch = difference(self._tree, mine, removed)
        tree = graded(self._tree, self._tests, mine, removed, self._task.patch, self._named())
        found = await self._run_tests(tree)
        if isinstance(found, str):
            return self._nothing(found)
        found = await self._with_expected_failures(found)
        wanted = [self._checked(name, found) for name in self._task.fail_to_pass]
        kept = [name for name in self._task.pass_to_pass if found.get(name) == "passed"]
        broken = [
            AssertionResult(
                name=name, passed=False, kind="guardrail", detail=f"it {found.get(name, 'did not run')}"
            )
            for name in self._task.pass_to_pass
            if found.get(name) != "passed"
        ]
        intact = AssertionResult(
            name=f"{len(kept)} tests that passed still pass", passed=True, kind="guardrail"
        )
        return self._total((*wanted, *broken, *([intact] if kept else [])))

    async def _with_expected_failures(self, found: Mapping[str, str]) -> Mapping[str, str]:
        """Count a failure that a test's marker expects as a success, where the solution's run has it, too.

        Code under test could have set the marker.

        Raises:
            SandboxError: the tests do not run over the solution.
        """
        names = self._task.fail_to_pass + self._task.pass_to_pass
        expected = {name for name in names if found.get(name) == "xfailed"}
        if not expected:
            return found
        output = self.test_output
        solved = await self._run_tests(await to_thread.run_sync(self._solved))
        self.test_output = output
        if isinstance(solved, str):
            raise SandboxError(f"the tests cannot be compared with those over the solution: {solved}")
        good = {name for name in expected if solved.get(name) == "xfailed"}
        return {name: "passed" if name in good else how for name, how in found.items()}

    async def _run_tests(self, tree: Tree) -> Mapping[str, str] | str:
        """Run the hidden tests over a repository; return each one's outcome, or why there is none.

        Two more tests come along, one that must pass and one that must fail. Where they do not, the code
        under test has meddled with the report.
        """
        paths = self._named()
        missing = [path for path in paths if path not in tree]
        if missing:
            return f"the tests' file {missing[0]} is missing"
        word = secrets.token_hex(4)
        folder = paths[0].rpartition("/")[0]
        path = f"{folder}/test_{word}.py".lstrip("/")
        text = f"def test_{word}():\n    assert 1 == {secrets.randbelow(90) + 2}\n\n\n"
        text += f"def test_{word[::-1]}_():\n    pass\n"
        await self._verifier.renew({PLACE: runner()}, fresh=True)
        await unpack(self._verifier, {**tree, path: File(0o100644, text.encode())})
        listed = " ".join(map(shlex.quote, (*paths, path)))
        added = ",".join(new_modules({*self._tree, *self._tests}, tree))
        command = f"cd {ROOT} && {python(self._task)} {RUNNER} --repository={added} {listed}"
        run = await signed_run(self._verifier, command, seconds=TEST_SECONDS)
        self.test_output = run.result.output
        if run.result.timed_out:
            return f"the tests did not end within {TEST_SECONDS:.0f} s"
        if self._verifier.over:
            return f"the tests' sandbox was ended: {self._verifier.over}"
        if run.outcomes is None:
            return f"the tests left no signed report: {self.test_output[-SHOWN:]}"
        found = dict(run.outcomes)
        if (found.pop(f"{path}::test_{word}", ""), found.pop(f"{path}::test_{word[::-1]}_", "")) != (
            "failed",
            "passed",
        ):
            return f"the report cannot be believed, or the tests ended early: {self.test_output[-SHOWN:]}"
        return found

    def _named(self) -> list[str]:
        """Return the files of the task's tests."""
        return sorted({name.partition("::")[0] for name in self._task.fail_to_pass + self._task.pass_to_pass})

    def _checked(self, name: str, found: Mapping[str, str]) -> AssertionResult:
        outcome = found.get(name, "did not run")
        passed = outcome == "passed"
        return AssertionResult(
            name=name, passed=passed, kind="objective", detail="" if passed else f"it {outcome}"
        )

    def _nothing(self, reason: str) -> Grade:
        names = self._task.fail_to_pass
        return self._total(
            tuple(AssertionResult(name=name, passed=False, kind="objective", detail=reason) for name in names)
        )

    def _total(self, checks: tuple[AssertionResult, ...]) -> Grade:
        strict = all(check.passed for check in checks)
        return Grade(
            partial=partial_credit(checks, strict=strict),
            strict=strict,
            assertions=checks,
            grader_version=self.grader_version,
        )


async def unpack(sandbox: Sandbox, tree: Tree) -> None:
    """Write a repository's files.

    Raises:
        SandboxError: they cannot be written.
    """
    await sandbox.write("/tmp/repository.tar", archive(tree))  # noqa: S108 - in the sandbox
    done = await sandbox.run(
        f"mkdir -p {ROOT} && tar -xf /tmp/repository.tar --no-same-owner -C {ROOT} && rm /tmp/repository.tar"
    )
    if done.code:
        raise SandboxError(f"the repository could not be unpacked: {done.output[-SHOWN:]}")


def python(task: Instance) -> str:
    """Return the command of the Python that runs the tests."""
    return "python3 -I -B" + (" -S" if task.base == HOST_BASE else "")


def python_path(folders: tuple[str, ...]) -> str:
    """Return where Python looks: the test tools first, so that no file of the repository replaces them."""
    return ":".join((SITE, *(re.sub(r"/+$", "", f"{ROOT}/{folder}") for folder in folders)))
