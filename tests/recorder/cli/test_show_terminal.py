"""`mcp-bench show` on a terminal: as wide as it, in colours, and nothing of an agent at the left edge."""

import json

import pytest

from tests.support.pages.terminal import on_terminal
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.system

FORGED = "grade      partial 1.000, solved"


def test_an_episode_fits_the_terminal() -> None:
    """Also with wide characters, and with text that is made to be wrapped into a forged grade."""
    long = "word " * 60 + "宽" * 200 + " " + "y" * 300 + ("x" * 56 + " " + FORGED)
    _, (episode,) = record([(planned(), Episode(calls=[("transfer", {"note": long}, long)], partial=0.0))])
    coloured = on_terminal(60, "show", episode, "--full", colours=True)
    assert "\x1b[31m" in coloured  # a broken objective is red
    plain = on_terminal(60, "show", episode, "--full", NO_COLOR="1", colours=True)
    assert "\x1b" not in plain
    lines = plain.splitlines()
    width = {line: sum(2 if char == "宽" else 1 for char in line) for line in lines}
    body = lines[lines.index(next(line for line in lines if line.startswith(" 0  user"))) :]
    assert all(width[line] <= 60 for line in body), body
    assert [line for line in lines if line.startswith("grade")] == [
        "grade      partial 0.000, not solved (grader g1)"
    ]
    assert "".join("".join(body).split()).count("宽" * 200) == 2  # nothing is lost
    assert json.dumps(long)[1:10] in plain
