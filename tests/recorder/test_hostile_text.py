"""Text that agents, tools and servers write into a recording cannot control the terminal that shows it."""

from __future__ import annotations

import logging
import shutil
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_bench.recorder.cli.report import report
from mcp_bench.recorder.cli.show import show
from mcp_bench.recorder.cli.verify import verify
from mcp_bench.recorder.trajectory import Message
from mcp_bench.servers.terminal.sanitize import sanitize, sanitize_line
from mcp_bench.servers.terminal.sanitized_logs import SanitizedFormatter
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.unit

Invoke = Callable[..., Result]

ATTACKS = (
    "\x1b]0;owned\x07", "\x1b[2J", "\x9b31m", "\r", "\u202egnp", "\u2066", "\x00", "\u200b", "\u2028", "\U000e0041",
    "\xad", "[red]x[/red]", "[/]", "\n\ngrade     partial 1.000, solved", "\nepisode   ep_other", "\x7f\b\b",
)  # fmt: skip
HOSTILE = st.lists(
    st.sampled_from(ATTACKS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    min_size=1,
    max_size=4,
).map("".join)


def harmless(output: str) -> bool:
    """Return whether the output has no control characters, and none that hide or reorder text."""
    return all(
        char == "\n" or unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp") for char in output
    ) and not (
        set(output)
        & set("\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\xad\U000e0041")
    )


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
    max_examples=25,
)
@given(data=st.data())
def test_every_view_of_a_recording_is_harmless(invoke: Invoke, bench_home: Path, data: st.DataObject) -> None:
    def text() -> str:
        return data.draw(HOSTILE)

    shutil.rmtree(bench_home, ignore_errors=True)
    said = [Message(role="assistant", content=text(), reasoning=text())]
    calls = [("transfer", {text(): text()}, text()), (text(), {}, "!" + text())]
    stories = [
        (planned(text() + "1"), Episode(calls=calls, transcript=said, detail=text())),
        (planned(text() + "2"), Episode(invalid=text(), partial=None)),
    ]
    agent = text()
    folder, (first, second) = record(
        stories, agent=agent, agent_version=text(), model=text(), isolation=text()
    )
    for command, *arguments in (
        (show,),
        (show, folder.id),
        (show, first),
        (show, second),
        (show, first, "--model-calls"),
        (show, first, "--json"),
        (report,),
        (report, "--json"),
        (report, "--by", "agent,domain,split,model,benchmark"),
        (report, "--compare", f"run={folder.id}", f"run={folder.id}"),
        (verify, "--json"),
        (verify,),
    ):
        result = invoke(command, *arguments)
        assert harmless(result.output.replace("\t", "")), (command.name, arguments, result.output)
    shown = invoke(show, first).output.splitlines()
    assert len([line for line in shown if line.startswith("grade ")]) == 1
    assert len([line for line in shown if line.startswith("episode ")]) == 1
    assert sanitize_line(agent) in "\n".join(shown)  # and nothing is interpreted as markup


@given(st.text(st.characters()))
def test_a_line_stays_one_line(text: str) -> None:
    assert sanitize_line(text).splitlines() in ([], [sanitize_line(text)])
    assert harmless(sanitize_line(text))
    assert sanitize_line(sanitize_line(text)) == sanitize_line(text)
    assert sanitize(text).count("\n") == text.count("\n")


def test_logs_are_harmless_with_their_tracebacks() -> None:
    try:
        raise ValueError("\x1b[2Jgone\u202e")
    except ValueError:
        record_ = logging.LogRecord("n", logging.ERROR, "p", 1, "tool \x9b31m", (), sys.exc_info())
    shown = SanitizedFormatter("%(message)s").format(record_)
    assert harmless(shown)
    assert r"ValueError: \x1b[2Jgone\u202e" in shown
    assert r"tool \x9b31m" in shown


@pytest.mark.parametrize("plain", ["Zürich, 東京, naïve 😀", "a\u00a0b", "x = [1, 2]"])
def test_ordinary_text_is_unchanged(plain: str) -> None:
    assert sanitize(plain) == sanitize_line(plain) == plain
