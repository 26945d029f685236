"""The referee, often root, works in a folder in which the agent can put links in every place, at any time."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mcp_bench.plugins.agent_folder import hold
from mcp_bench.plugins.opencode import session as opencode
from tests.support.bench_commands import RPC, Bench
from tests.support.levels import each_level

pytestmark = pytest.mark.system

SWAP = """
here = os.path.dirname(CONFIG["command"][-1])
home = os.environ["HOME"]
server = Server()
hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
server.ask("initialize", hello)
os.rename(here, here + "-away")
os.symlink(TARGET, here)  # just before the tools are listed: the referee is about to mark that
server.ask("tools/list")
os.rename(home, home + "-away")
os.symlink(TARGET, home)
os.rename(os.environ["TMPDIR"], os.environ["TMPDIR"] + "-away")
os.symlink(TARGET, os.environ["TMPDIR"])
print("done")
"""


@each_level("none")
def test_the_referee_writes_nothing_through_a_link(bench: Bench, tmp_path: Path, level: str) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "fault").write_text("stolen-sentinel")
    (target / "messages").write_text('{"role": "assistant", "content": "stolen-sentinel"}\n')
    agent = tmp_path / "agent.py"
    agent.write_text(f"{RPC}\nTARGET = {str(target)!r}\n{SWAP}")
    bench.run(
        "record", "--agent", "script", "--agent-option", f"file={agent}", "--benchmark", "notebook",
        "--task", "colours", "--isolation", level, "--tools", "all", code=None,
    )  # fmt: skip
    assert sorted(path.name for path in target.iterdir()) == ["fault", "messages"]
    (episode,) = bench.rows("select answer, invalid, invalid_detail from episodes")
    assert episode == {"answer": "done", "invalid": None, "invalid_detail": None}
    assert bench.rows("select * from messages where content like '%stolen%'") == []


def test_a_database_of_the_agent_is_read_from_a_copy(tmp_path: Path) -> None:
    """SQLite itself would make and delete files beside it, and follow the name in a rollback journal."""
    with closing(sqlite3.connect(tmp_path / opencode.DATABASE)) as database:
        database.executescript("pragma journal_mode = wal; create table part (session_id, time_updated)")
        database.execute("insert into part values ('s', 5000)")
        database.commit()
        (tmp_path / f"{opencode.DATABASE}-journal").write_bytes(b"\xd9\xd5\x05\xf9 \xa1c\xd7" + bytes(504))
        (tmp_path / f"{opencode.DATABASE}-shm").unlink()
        before = sorted(path.name for path in tmp_path.iterdir())
        assert opencode.stored_time(hold(tmp_path), "s") == 5.0
        assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_an_endless_view_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencode, "QUERY_SECONDS", 0.1)
    with closing(sqlite3.connect(tmp_path / opencode.DATABASE)) as database:
        database.execute(
            "create view part as with recursive n(x) as (select 1 union all select x + 1 from n) "
            "select 's' as session_id, x as time_updated from n"
        )
    assert opencode.stored_time(hold(tmp_path), "s") == 0.0


@pytest.mark.parametrize("name", ["opencode.db", "opencode.db-wal"])
def test_a_database_that_is_a_link_is_not_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "home").mkdir()
    with closing(sqlite3.connect(tmp_path / "home/opencode.db")) as database:
        database.execute("create table part (session_id, time_updated)")
        database.execute("insert into part values ('s', 5000)")
        database.commit()
    (tmp_path / "home" / name).unlink(missing_ok=True)
    (tmp_path / "home" / name).symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_bytes(b"x")
    assert opencode.stored_time(hold(tmp_path / "home"), "s") == 0.0
