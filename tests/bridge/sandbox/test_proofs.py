"""proofs: reference proofs pass, and a proof that rests on something does not."""

from __future__ import annotations

import shutil

import anyio
import pytest

from mcp_bench.bridge.sandbox.engine import engines
from mcp_bench.bridge.sandbox.runners.episode_sandboxes import EpisodeSandboxes
from mcp_bench.servers.grading import Grade
from mcp_bench.servers.grading_call import grade_world
from mcp_bench.servers.proofs import BENCHMARK
from mcp_bench.servers.proofs.benchmark import SPLIT
from mcp_bench.servers.proofs.judge import FORBIDDEN
from mcp_bench.servers.sandbox import Sandbox, SandboxSpec
from tests.support.requirements import needs

BWRAP = engines()["bwrap"]
pytestmark = [
    pytest.mark.system,
    needs("bwrap", BWRAP.support().works, BWRAP.support().detail),
    needs("coq", shutil.which("coqchk") is not None, "there is no coqc (Debian: apt-get install coq)"),
]
HEAD = "From Task Require Import Problem.\n"
REST = "".join(f"Theorem part{n} : Problem.part{n}. Proof. Admitted.\n" for n in (2, 3))
FIRST = "Theorem part1 : Problem.part1. Proof. unfold Problem.part1; tauto. Qed.\n"
CHEATS = {
    "axiom": "Axiom magic : forall P : Prop, P.\n"
    + "".join(f"Definition part{n} : Problem.part{n} := magic _.\n" for n in (1, 2, 3)),
    "own statement": "Definition part1 : Prop := True.\nDefinition part2 := I.\nDefinition part3 := I.\n",
    "module": "Module Problem. Definition part1 := True. Definition part2 := True. Definition part3 := True. End Problem.\n"
    "Definition part1 : Problem.part1 := I. Definition part2 : Problem.part2 := I. Definition part3 : Problem.part3 := I.\n",
    "unguarded": "#[bypass_check(guard)] Fixpoint magic (P : Prop) (n : nat) {struct n} : P := magic P n.\n"
    + "".join(f"Definition part{n} : Problem.part{n} := magic _ 0.\n" for n in (1, 2, 3)),
    "plugin": 'Declare ML Module "evil".\n' + FIRST + REST,
    "redirect": 'Redirect "/judge/task/Problem" Print nat.\n' + FIRST + REST,
    "universes": 'Print (* *) Universes "/usr/bin/coqchk".\n' + FIRST + REST,
}


class Lender:
    def __init__(self) -> None:
        self.sandboxes = EpisodeSandboxes()

    async def sandbox(self, spec: SandboxSpec) -> Sandbox:
        return await self.sandboxes.start(spec)


def graded(task: str, text: str | None, *commands: str) -> Grade:
    async def attempt() -> Grade:
        lender = Lender()
        try:
            world = await BENCHMARK.open(task, host=lender)
            if text is not None:
                await world.sandbox.write("/work/Solution.v", text.encode())
            for command in commands:
                await world.call("bash", {"command": command})
            return await grade_world(world, "", ())
        finally:
            await lender.sandboxes.aclose()

    return anyio.run(attempt)


@pytest.mark.full
@pytest.mark.parametrize("agent", ["oracle", "noop"])
def test_reference_proofs_pass_and_no_others(bench, agent: str) -> None:
    bench.run("record", "--agent", agent, "--benchmark", "proofs", "--split", "all")
    score = int(agent == "oracle")
    assert [(row["strict"], row["partial"]) for row in bench.grades()] == [(score, score)] * len(SPLIT)


def test_each_proved_statement_counts() -> None:
    grade = graded("logic", HEAD + FIRST + REST)
    assert [check.passed for check in grade.assertions] == [True, False, False]


@pytest.mark.full
@pytest.mark.parametrize("how", CHEATS)
def test_a_proof_that_rests_on_something_fails(how: str) -> None:
    assert graded("logic", HEAD + CHEATS[how]).partial == 0


@pytest.mark.full
def test_what_the_agent_leaves_beside_the_proof_is_unused() -> None:
    trivial = (
        "printf 'Definition part1 := True. Definition part2 := True. Definition part3 := True.' > Problem.v"
    )
    proof = "".join(f"Definition part{n} : Problem.part{n} := I.\n" for n in (1, 2, 3))
    fake = "printf '#!/bin/sh\\necho Closed under the global context\\n' > /usr/bin/coqc; cp /usr/bin/coqc /usr/bin/coqchk"
    build = "coqc -Q . Task Problem.v && coqc -Q . Task Solution.v"
    assert graded("logic", HEAD + proof, f"cd /work && {trivial} && {build}; {fake}").partial == 0


def test_agents_learn_which_words_are_refused() -> None:
    task = BENCHMARK.task(next(iter(SPLIT)))
    listed = task.prompt.partition("not even in a comment: ")[2].partition(". Each")[0].split(", ")
    assert len(listed) == 10
    assert all(FORBIDDEN.fullmatch(word) for word in listed)
