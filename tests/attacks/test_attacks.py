"""A hostile agent against every isolation level. The results match the table in docs/security/attacks.md: above
`none`, no attack succeeds."""

from __future__ import annotations

import os
import re

import pytest

from mcp_bench.recorder.isolation_levels import SEALING
from tests.support import ROOT
from tests.support.attacks.arena import LEFT_OUT, Arena, Measured
from tests.support.attacks.table import Row, table
from tests.support.levels import each_level, these_levels

pytestmark = pytest.mark.system

ATTACKS = ROOT / "docs" / "security" / "attacks.md"
ELSEWHERE = {"answer with nothing, null or NaN"}
"""Rows that other tests measure, since the level makes no difference."""
FLAGS = {"wrong_token", "foreign_peer", "late_reconnect", "replay"}


def test_no_attack_succeeds_above_none() -> None:
    rows = table(ATTACKS)
    assert len(rows) >= 60 and len({row.kind for row in rows}) == 15
    assert [row.name for row in rows if {row.outcome[level] for level in SEALING} != {"no"}] == []


@each_level("none")
def test_the_table_matches_the_measurement(bench, level: str) -> None:
    rows = table(ATTACKS)
    measured = Arena(bench, level).measure()
    documented = {row.name: expected(row, level) for row in rows if row.name not in ELSEWHERE}
    assert measured.succeeded == documented
    check_traces(rows, measured)
    check_scores(measured)


@pytest.mark.parametrize("engine", ["referees", pytest.param("ray", marks=pytest.mark.full)])
@these_levels(*SEALING, full=SEALING[:-1])
def test_the_table_holds_for_every_engine(bench, level: str, engine: str) -> None:
    rows = table(ATTACKS)
    measured = Arena(bench, level, engine).measure()
    assert measured.succeeded == {row.name: expected(row, level) for row in rows if row.name not in ELSEWHERE}
    check_traces(rows, measured)
    check_scores(measured)


def expected(row: Row, level: str) -> bool:
    return row.outcome[level] == "yes" or (row.outcome[level] == "as root" and os.geteuid() == 0)


def check_traces(rows: list[Row], measured: Measured) -> None:
    """Check that exactly the documented attacks left a trace."""
    evidence = {row.name: row.seen - FLAGS for row in rows if row.seen - FLAGS}
    if re.search("mcp[-_]bench", str(ROOT)):  # then the path of the sources is a sign by its name alone
        evidence["read the benchmark's source"] = {"path"}
    # a canary appears only in results of attacks that succeeded
    assert {name: kinds - {"canary"} for name, kinds in measured.seen.items()} == evidence
    assert set(measured.flags) == set().union(*(row.seen & FLAGS for row in rows))
    assert measured.verdicts["shell"] == measured.verdicts["wire"] == "tainted"


def check_scores(measured: Measured) -> None:
    """Check that attacks change no score: neither of other episodes nor of the attacker's own work."""
    assert (measured.oracle["partial"], measured.oracle["strict"]) == (1.0, 1)
    scores = {part: grade["partial"] for part, grade in measured.grades.items()}
    assert (scores.pop("victim"), scores.pop("wire")) == (1.0, 0.5)
    assert set(scores.values()) == {0.0}
    for part, episode in measured.episodes.items():
        assert episode["invalid"] is None, (part, episode["invalid_detail"])
        assert (LEFT_OUT + part in measured.succeeded) <= (part in measured.grades)
