"""Episodes on worlds that are over, whose users speak again, and whose references are policies."""

import json
import struct
from typing import cast

import anyio
import pytest

from mcp_bench.bridge.episode.solution import solution
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.servers.contracts import Benchmark, Reference
from mcp_bench.servers.errors import BenchError
from tests.support.bench_commands import Bench

pytestmark = pytest.mark.system

REWARD = 0.43219876505
"""Of each press, with digits that no time or number of a recording has by chance."""
PRESSES = """
server = Server()
server.connect()
for _ in range(4):
    print(server.call("press"))
"""


def play(bench, task: str, *more: str, agent: str = "oracle", code: int = 0):
    return bench.run(
        "record", "--agent", agent, "--benchmark", "counter", "--task", task, *more, "--json", code=code
    )


@pytest.mark.parametrize("task", ["talk", "game"])
def test_the_oracle_plays_a_policy(bench, task: str) -> None:
    assert json.loads(play(bench, task).stdout)["strict"] == 1.0


def test_a_user_speaks_again(bench, tmp_path) -> None:
    play(bench, "talk")
    (tools,) = [json.loads(row["tools"]) for row in bench.rows("select tools from episodes")]
    assert [tool["function"]["name"] for tool in tools] == ["press", "reply_to_user"]
    out = tmp_path / "rows.jsonl"
    bench.run("export", "--benchmark", "counter", "--out", out)
    (row,) = map(json.loads, out.read_text().splitlines())
    told = [
        (one["role"], one["content"])
        for one in row["messages"]
        if one["role"] != "tool" and one.get("content")
    ]
    assert told == [
        ("system", "Policy: press gently."),
        ("user", "Task talk: press the button."),
        ("assistant", "0 so far. What now?"),
        ("user", "Two more, please."),
        ("assistant", "2 so far. What now?"),
        ("user", "And one more."),
        ("assistant", "3 so far. What now?"),
    ]
    assert [tool["function"]["name"] for tool in row["tools"]] == ["press"]


def test_a_world_can_grade_what_was_said(bench) -> None:
    play(bench, "talk")
    (row,) = bench.rows("select final_state from grades", database="grades.db")
    assert json.loads(row["final_state"])["transcript"] == [
        "system: Policy: press gently.",
        "user: Task talk: press the button.",
        "assistant: 0 so far. What now?",
        "user: Two more, please.",
        "tool: pressed 1 times",
        "tool: pressed 2 times",
        "assistant: 2 so far. What now?",
        "user: And one more.",
        "tool: pressed 3 times\n[image: image/png, 96 characters of base64]",
        "assistant: 3 so far. What now?",
    ]


def test_steps_have_rewards_on_the_sealed_side_only(bench) -> None:
    play(bench, "game")
    rows = bench.rows("select execution, reward from rewards", database="grades.db")
    assert rows == [{"execution": number, "reward": REWARD} for number in (1, 2, 3)]
    stored, graded = (
        b"".join(path.read_bytes() for path in bench.run_folder.glob(f"{name}.db*"))
        for name in ("recordings", "grades")
    )
    assert struct.pack(">d", REWARD) in graded
    assert str(REWARD)[2:].encode() not in stored  # as text
    assert struct.pack(">d", REWARD) not in stored  # as SQLite stores numbers


@pytest.mark.full
def test_an_attempt_ends_when_its_world_is_over(bench, script) -> None:
    waits = script(PRESSES + "import time\ntime.sleep(600)\n")
    done = play(bench, "game", "--agent-option", waits, agent="script")
    assert json.loads(done.stdout)["strict"] == 1.0
    (episode,) = bench.rows("select termination, invalid from episodes")
    assert episode == {"termination": "world_over", "invalid": None}


def test_a_world_that_is_over_refuses_and_keeps_its_rewards(bench, script) -> None:
    done = play(bench, "game", "--agent-option", script(PRESSES), agent="script")
    assert json.loads(done.stdout)["strict"] == 1.0
    results = [row["body"] for row in bench.rows("select body from frames where direction = 'server'")]
    assert any("The task is over" in str(body) for body in results)
    assert not any(str(REWARD)[2:] in str(body) for body in results)


def test_the_oracle_leaves_out_what_has_no_reference(bench) -> None:
    done = bench.run(
        "record", "--agent", "oracle", "--benchmark", "counter", "--task", "game", "--task", "unsolved"
    )
    assert "Left out: 1 task without a reference (unsolved)" in done.stderr
    assert [row["task"] for row in bench.rows("select task from episodes")] == ["game"]
    refused = play(bench, "unsolved", code=2)
    assert "no reference for these tasks" in refused.stderr


def test_a_world_that_does_not_open_in_time_is_invalid(bench) -> None:
    play(bench, "slow", agent="noop", code=1)
    (episode,) = bench.rows("select invalid, invalid_detail from episodes")
    assert episode["invalid"] == "world_failed"
    assert "did not open within 0.05 seconds" in episode["invalid_detail"]


def test_the_agent_reads_the_shared_instructions(bench, script) -> None:
    said = script(
        "import json\nServer().connect()\nprint(repr(json.load(open(os.environ['CONFIG']))['prompt']))\n"
    )
    play(bench, "talk", "--agent-option", said, agent="script", code=None)
    (episode,) = bench.rows("select answer, prompt, system from episodes")
    assert episode["prompt"] == "Task talk: press the button."
    assert episode["system"].startswith("Policy: press gently.")
    assert "reply_to_user" in episode["system"]
    assert episode["answer"] == repr(f"{episode['system']}\n\n{episode['prompt']}")


def test_user_turns_and_a_picture_come_back(bench, tmp_path) -> None:
    """Through TRL's rows, into another home, and out again."""
    play(bench, "talk")
    first, second = tmp_path / "rows.jsonl", tmp_path / "again" / "rows.jsonl"
    bench.run("export", "--benchmark", "counter", "--images", "files", "--out", first)
    other = Bench(tmp_path / "other", bench.environ)
    other.run("import", first)
    other.run("export", "--images", "files", "--out", second)
    rows = [json.loads(path.read_text())["messages"] for path in (first, second)]
    assert [one["role"] for one in rows[0]].count("user") == 3
    (picture,) = [
        part for one in rows[0] for part in one.get("content") or "" if isinstance(part, dict)
        and part.get("type") == "image"
    ]  # fmt: skip
    assert (tmp_path / picture["image"]).read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "again" / picture["image"]).read_bytes() == (tmp_path / picture["image"]).read_bytes()
    assert rows[0] == rows[1]


class Waiting:
    """A world whose policy never says what to do next."""

    closed = False

    async def suggest(self) -> str:
        await anyio.sleep_forever()
        return ""

    async def close(self) -> None:
        self.closed = True


@pytest.mark.anyio
async def test_a_policy_that_hangs_is_ended() -> None:
    world = Waiting()

    class Hangs:
        def reference(self, _: str) -> Reference:
            return Reference(policy=True)

        async def open(self, *_: object, **__: object) -> Waiting:
            return world

    planned = PlannedEpisode(task="t", split="train", domain="d", prompt="p")
    with pytest.raises(BenchError, match="t: the policy did not end within 0 seconds"):
        await solution(cast("Benchmark", Hangs()), planned, seconds=0.05)
    assert world.closed
