"""What an agent may leave behind to pass codeworld's checks without solving them. Nothing of it scores."""

from __future__ import annotations

from random import Random

import pytest

from mcp_bench.bridge.sandbox.runners.episode_sandboxes import EpisodeSandboxes
from mcp_bench.servers.codeworld.case import Case, Check
from mcp_bench.servers.codeworld.families import git_history, sql_question
from mcp_bench.servers.codeworld.world import CodeWorldWorld
from mcp_bench.servers.grading import Grade
from mcp_bench.servers.sandbox import SandboxSpec

pytestmark = [pytest.mark.anyio, pytest.mark.system, pytest.mark.usefixtures("on_engine")]

SHELL = r"""#!/usr/bin/python3
import os, sys
for line in sys.stdin:
    if "the answer" in line: os.write(1, b"right\n")
    if line.startswith("printf"): os.write(8, b"0 /work\0")
"""
"""It reads the check's command, and prints what is expected."""
PLANTED = {
    "a shell in /bin": "mv /bin /bin.old; mkdir /bin && /usr/bin/cp /usr/bin/sh /bin/sh && "
    "/usr/bin/cp /work/shell /bin/bash && /usr/bin/chmod 755 /bin/bash",
    "a library that everything loads": "/usr/bin/echo /work/all.so >/etc/ld.so.preload",
    "a user whose home is elsewhere": "echo 'root:x:0:0::/work/evil:/work/shell' >/etc/passwd",
}
CHECK = Check("the answer is there", "cat /work/the\\ answer; : the answer", "right")
SYSTEM = Check(
    "the system is the machine's",
    "ls -d /bin/cp /usr/bin/cp; cat /etc/ld.so.preload 2>/dev/null; grep -c evil /etc/passwd",
    "/bin/cp\n/usr/bin/cp\n0",
)


CASE = Case("", {"shell": SHELL}, (CHECK, SYSTEM), "")
FORGES = """cat >.git/evil <<'END'
#!/bin/sh
read -r _ _ _ above _ </proc/$PPID/stat
printf '{expected}' >/proc/$above/fd/1
kill -PIPE $PPID
END
chmod +x .git/evil && {way}"""
"""A program that git starts prints what is expected where the check prints, and ends git."""
WAYS = {
    "a setting of the repository": "git config core.fsmonitor /work/.git/evil",
    "a setting of the user": "git config --global core.fsmonitor /work/.git/evil",
    "a hook": "mkdir -p .git/hooks && cp .git/evil .git/hooks/post-index-change && touch part*.txt",
    "a folder of settings elsewhere": "git config core.fsmonitor /work/.git/evil && mkdir .git/common && "
    "cp -r .git/config .git/objects .git/refs .git/common && echo common >.git/commondir",
}


async def graded(*commands: str, case: Case = CASE) -> Grade:
    """Return the grade of an agent that runs these commands."""
    lent = EpisodeSandboxes()
    try:
        world = await CodeWorldWorld.opened(await lent.start(SandboxSpec()), case, "1")
        for command in commands:
            await world.call("bash", {"command": command, "seconds": 20})
        return await world.grade("")
    finally:
        await lent.aclose()


@pytest.mark.parametrize("name", PLANTED)
async def test_no_check_runs_in_a_system_of_the_agents(name: str) -> None:
    answer, system = (await graded(PLANTED[name])).assertions
    assert not answer.passed
    assert system.passed, system


async def test_a_right_answer_scores_whatever_lies_beside_it() -> None:
    grade = await graded("echo right >'/work/the answer'", *PLANTED.values())
    assert grade.strict, grade


@pytest.mark.parametrize("name", WAYS)
async def test_no_check_of_a_repository_starts_a_program_of_the_agents(name: str) -> None:
    case = git_history.make(Random(1), 1)
    forges = FORGES.format(expected=case.checks[1].expected.replace("\n", "\\n"), way=WAYS[name])
    lost, parts = (await graded(f"cd /work && {forges}", case=case)).assertions
    assert not lost.passed
    assert not parts.passed, parts


async def test_no_check_of_a_database_loads_a_module_of_the_agents() -> None:
    case = sql_question.make(Random(1), 1)
    deletes = (
        "import sqlite3; d = sqlite3.connect('/work/shop.db'); d.execute('DELETE FROM orders'); d.commit()"
    )
    plants = (
        "place=$(python3 -m site --user-site) && mkdir -p $place && "
        "echo 'import os; os.write(1, b\"200\"); os._exit(0)' >$place/usercustomize.py"
    )
    checks = (await graded(f'python3 -c "{deletes}"', plants, case=case)).assertions
    assert [one.passed for one in checks if one.kind == "guardrail"] == [False]


@pytest.mark.parametrize("level", [1, 2, 3])
async def test_a_repaired_repository_scores_whatever_its_settings_are(level: int) -> None:
    case = git_history.make(Random(level), level)
    settings = "cd /work && git config user.name Eve && git config core.fsmonitor true"
    assert (await graded(settings, case.solution, case=case)).strict
