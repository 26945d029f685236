"""Output of a hostile agent or endpoint cannot control the operator's terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

ATTACK = "\x1b[2J\x1b]0;owned\x07 \u202egnp \x9b31m\r[red]x[/red]"
UNSAFE = set("\x1b\x07\u202e\x9b\r")


def test_record_sanitizes_a_hostile_agents_words(bench: Any, script: Callable[[str], str]) -> None:
    source = f"""
print({ATTACK!r})
server = Server(); server.connect()
server.call("write", key={ATTACK!r}, value={ATTACK!r})
server.call({ATTACK!r})
open(os.path.join(os.environ["HOME"], "fault"), "w").write("endpoint_error: " + {ATTACK!r})
"""
    done = bench.run(
        "record", "--agent", "script", "--benchmark", "notebook", "--agent-option", script(source), code=1
    )
    (episode,) = bench.rows("select id from episodes limit 1")[:1]
    for output in (
        done,
        bench.run("show"),
        bench.run("show", episode["id"]),
        bench.run("report"),
        bench.run("verify"),
    ):
        assert not UNSAFE & set(output.stdout + output.stderr)
    assert r"\x1b[2J" in done.stderr
    assert "[red]x[/red]" in done.stderr


def test_an_error_with_a_hostile_name_is_sanitized(bench: Any) -> None:
    bench.home = Path(bench.home.parent / "home\x1b[2J\u202e")
    damaged = bench.home / "runs" / "run_damaged"
    damaged.mkdir(parents=True)
    (damaged / "recordings.db").write_bytes(b"not a database, " * 99)
    for command in (("show", "run_damaged"), ("show",), ("report",), ("verify",), ("regrade",)):
        done = bench.run(*command, code=1)
        assert not UNSAFE & set(done.stdout + done.stderr)
        assert r"home\x1b[2J\u202e" in done.stdout + done.stderr
