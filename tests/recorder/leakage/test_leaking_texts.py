"""Texts that an agent wrote must not contain held-out tasks, canaries, or copies of training tasks."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import cycle
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.recorder.leakage.literals import literals, number
from mcp_bench.recorder.leakage.texts import MOST_TRAINING_LITERALS, TextCheck, for_agents
from mcp_bench.recorder.taint import Canary
from mcp_bench.servers.contracts import Benchmark, Reference, Task, ToolCall
from mcp_bench.servers.errors import UnknownNameError

pytestmark = pytest.mark.unit

LONG = " ".join(f"word{chr(97 + n)}" for n in range(24))
HELD = {
    "test": (
        "Close ticket tkt_77f0aa for Ilse Marbach, please, and write to Nadja Brunn's office.",
        {"id": "tkt_77f0aa", "name": "Ilse Marbach", "amount": 1250.0, "more": 1500.0},
    ),
    "dev": (
        f"Please do this: {LONG}.",
        {"query": "blue-harbour", "plain": "approve", "from": "main-account"},
    ),
}
TRAIN = [(f"Pay invoice inv-{n:05} in 2027 from main-account.", {"id": f"inv-{n:05}"}) for n in range(20)]
CANARY = Canary("grades.db", "c0ffee" * 11)


class Toy:
    """Twenty training tasks, and one each of dev and test."""

    name = "toy-of-leaks"
    version = "1"

    def tasks(self, split: str | None = None, limit: int | None = None) -> Iterator[Task]:
        if split not in ("train", *HELD):
            raise UnknownNameError("split", str(split), ("train", *HELD))
        for place, (prompt, _) in enumerate(TRAIN if split == "train" else [HELD[str(split)]]):
            yield Task(
                id=f"{split}.{place}", benchmark=self.name, prompt=prompt, split=str(split), domain="d"
            )

    def reference(self, task: str) -> Reference:
        split, _, number = task.partition(".")
        arguments: Any = TRAIN[int(number)][1] if split == "train" else HELD[split][1]
        answer = "Done." if split == "train" else "It is 4711."
        return Reference(calls=(ToolCall(name="do", arguments=arguments),), answer=answer)


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TextCheck]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCP_BENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield TextCheck(cast(Benchmark, Toy()), [CANARY])


def found(check: TextCheck, text: str, path: str = "memory/a.md", allowed: str = "") -> list[tuple[str, int]]:
    return [(one.kind, one.line) for one in check.find({path: text}, allowed)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Start with tkt_77f0aa.", ("literal", 1)),
        ("First line.\nAsk Ilse\n  Marbach first.", ("literal", 2)),
        ("x\n\nLook for BLUE-HARBOUR.", ("literal", 3)),
        (f"Remember:\n\n{LONG}", ("quotation", 0)),
        (f"The value {CANARY.value} is odd.", ("canary", 0)),
        ("The answer is often 4711.", ("literal", 1)),
        ("Look for 4,711.00 EUR", ("literal", 1)),
        ("Pay 1250 at most.", ("literal", 1)),
        ("x\nPay $1,250.00 at most.", ("literal", 2)),
        ("Write to Nadja\nBrunn.", ("literal", 1)),
        ("Start with tkt_77\u200bf0aa.", ("literal", 1)),
        ("Start with \uff54kt_77f0aa.", ("literal", 1)),
    ],
)
def test_what_held_out_tasks_have_is_found(check: TextCheck, text: str, expected: tuple[str, int]) -> None:
    assert expected in found(check, text)


@pytest.mark.parametrize(
    "text",
    [
        "Approve in 2027.",
        "Pay from main-account.",
        "Check the ticket, then close it.",
        "tkt_77f0ab",
        "Pay inv-00003 first.",
        "Wait 1500 ms, in 4711.5 or 04711/2, as of 2027-04-11.",
        "Write To nobody. Close Ticket first. Brunn is a place.",
    ],
)
def test_lessons_pass(check: TextCheck, text: str) -> None:
    assert found(check, text) == []


def test_a_file_name_is_a_text_too(check: TextCheck) -> None:
    assert found(check, "x", "skills/tkt_77f0aa/SKILL.md") == [("literal", 0)]


def test_what_the_operator_wrote_is_allowed(check: TextCheck) -> None:
    assert found(check, "Start with tkt_77f0aa.", allowed="Such as tkt_77f0aa.") == []


def test_copies_of_training_tasks_are_limited(check: TextCheck) -> None:
    few = "\n".join(f"inv-{n:05}" for n in range(MOST_TRAINING_LITERALS))
    assert found(check, few) == []
    assert found(check, f"{few}\ninv-00019") == [("training literals", 1)]


class Endless(Toy):
    """Training tasks without an end."""

    def tasks(self, split: str | None = None, limit: int | None = None) -> Iterator[Task]:
        found = super().tasks(split, limit)
        return cycle(found) if split == "train" else found


def test_an_endless_split_is_read_in_part(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MCP_BENCH_CACHE", str(tmp_path))
    check = TextCheck(cast(Benchmark, Endless()))
    assert found(check, "Start with tkt_77f0aa.") == [("literal", 1)]


def test_an_agent_reads_neither_what_nor_where_nor_how_much(check: TextCheck) -> None:
    """Of twenty guesses, each in a line of its own, it cannot find out which one was right."""
    guesses = "\n".join(f"tkt_{number:06x}" for number in [*range(19), 0x77F0AA])
    found = check.find({"memory/a.md": f"{guesses}\n\nAsk Ilse Marbach."})
    assert found[0].words() == "memory/a.md, line 20: literal 'tkt_77f0aa' of the test task test.0"
    assert for_agents(found) == ["values of tasks that are kept back"]
    assert for_agents([]) == []


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_held_out_literal_is_found_in_any_text(check: TextCheck, before: str, after: str) -> None:
    assert any(
        one.what == "tkt_77f0aa" for one in check.find({"INSTRUCTIONS.md": f"{before} tkt_77f0aa {after}"})
    )


def test_words_of_the_language_are_no_literals() -> None:
    task = Task(
        id="t", benchmark="b", prompt='Say "hello there" at 9:00 on 2027-01-02.', split="test", domain="d"
    )
    calls = (
        ToolCall(
            name="a",
            arguments={"query": "returns policy", "who": "Ada Byron", "n": [120, 31999.5, 4250, 2027, 1000]},
        ),
    )
    assert literals(task, Reference(calls=calls, answer="Done.")) == {
        "hello there", "2027-01-02", "ada byron", "31999.5", "4250",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("42", {"42"}),
        ("It is $7.50.", {"7.5"}),
        ("7", set()),
        ("I wrote to 12 people of the 30 that were on the list.", set()),
    ],
)
def test_numbers_of_a_short_answer_are_literals(answer: str, expected: set[str]) -> None:
    task = Task(id="t", benchmark="b", prompt="How many are there?", split="test", domain="d")

    def numbers(reference: Reference) -> set[str]:
        return {one for one in literals(task, reference) if number(one) == one}

    assert numbers(Reference(calls=(), answer=answer)) == expected
    passed = (ToolCall(name="submit", arguments={"answer": answer}),)
    assert numbers(Reference(calls=passed, answer="")) == expected


@given(st.decimals(0, 10**9, places=2))
def test_a_number_has_one_form(value: Decimal) -> None:
    forms = {
        number(text) for text in (f"{value}", f"{value:,}", f"-${value}".replace("-$", "$-"), f"{value}00")
    }
    assert len(forms) == 1
    assert Decimal(forms.pop() or "") == value
