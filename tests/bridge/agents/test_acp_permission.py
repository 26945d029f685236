"""An agent over ACP that asks before each call: the benchmark's tools are allowed, others are not."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.support import SUPPORT

pytestmark = pytest.mark.system

STAND_IN = SUPPORT / "agents" / "acp_stand_in.py"
PAGE = {"key": "sky", "value": "cerulean-sentinel"}


def calling(*calls: tuple[str, dict]) -> list[str]:
    """Return a command that records the stand-in, which makes these calls, each announced by its fields."""
    actions = [f"call:{tool}:{json.dumps(call)}" for tool, call in calls]
    command = shlex.join(
        [sys.executable, "-I", "-S", str(STAND_IN), "connect", "only:colours", *actions, "say:done"]
    )
    return [
        "record", "--agent", "acp", "--agent-option", f"command={command}", "--benchmark", "notebook",
        "--task", "colours", "--timeout", "60",
    ]  # fmt: skip


def episode(bench) -> dict:
    (row,) = bench.rows("select id, invalid, invalid_detail, termination from episodes")
    return row


def test_a_tool_asked_for_by_its_bare_name_is_allowed(bench) -> None:
    bench.run(*calling(("write", {"title": "write", "kind": "other", "rawInput": PAGE})))
    assert episode(bench)["invalid"] is None
    assert [row["outcome"] for row in bench.rows("select outcome from calls")] == ["ok"]
    assert bench.grades()[0]["partial"] == 0.5


def test_an_edit_with_the_name_of_a_tool_is_refused(bench) -> None:
    own = {"title": "write", "kind": "edit", "rawInput": {"path": "write", "content": "x"}}
    bench.run(*calling(("write", own)))
    assert episode(bench)["invalid"] is None
    assert bench.rows("select * from calls") == []
    assert bench.grades()[0]["partial"] == 0


def test_a_doubtful_refusal_is_never_a_failed_grade(bench) -> None:
    """Another episode works, and still the refused one is not tried again and graded."""
    doubtful = {"title": "write", "kind": "other", "rawInput": {"page": 1}}
    bench.run(*calling(("write", doubtful)), "--task", "numbers", code=1)
    rows = bench.rows("select task, invalid, invalid_detail, attempt from episodes")
    assert {(row["task"], row["invalid"], row["attempt"]) for row in rows} == {
        ("colours", "approval_needed", 1),
        ("numbers", None, 1),
    }
    assert [row["invalid_detail"] for row in rows if row["invalid"]] == ["denied: write"]
    assert len(bench.grades()) == 1


def test_a_login_file_is_lent_to_any_agent(bench, tmp_path: Path) -> None:
    home = tmp_path / "user"
    (home / ".helper").mkdir(parents=True)
    (home / ".helper" / "key.json").write_text("{}")
    bench.environ["HOME"] = str(home)
    command = calling(("write", {"title": "write", "rawInput": PAGE}))
    done = bench.run(*command, "--agent-option", "login=~/.helper/key.json", "--repeat", "2", "--jobs", "2")
    assert "one episode at a time" in done.stderr
    assert len(bench.grades()) == 2
    done = bench.run(*command, "--agent-option", "login=~/.helper/none.json", code=1)
    assert "there is no file" in done.stderr
    done = bench.run(*command, "--agent-option", "login=/etc/passwd", code=2)
    assert "below your HOME" in done.stderr
