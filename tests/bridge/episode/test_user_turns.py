"""Agents that continue their session get the words of a world's user as messages, and not through a tool."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.recorder.conversations.load import trajectory
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.servers.contracts import Image
from tests.support.bench_commands import Bench
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.talk_script import ONE_ACTION, SPOKEN, TALK, spoken

pytestmark = pytest.mark.system

KEY = "dummy-key-1234"
OTHER_USER = ("--isolation", "uid" if os.geteuid() == 0 else "none")
"""Where each launch must reach the socket of the first one."""


def play(bench: Bench, url: str, *more: str, agent: str = "chat") -> dict[str, Any]:
    bench.environ.update(OPENAI_API_KEY=KEY)
    done = bench.run(
        "record", "--agent", agent, "--benchmark", "counter", "--task", "talk", "--model", "m", "--json",
        "--base-url", url, *more,
    )  # fmt: skip
    totals: dict[str, Any] = json.loads(done.stdout)
    return totals


@pytest.mark.parametrize(
    ("agent", "api"),
    [
        ("chat", "openai"),
        pytest.param("chat", "anthropic", marks=pytest.mark.full),
        ("one-action", "anthropic"),
        pytest.param("one-action", "openai", marks=pytest.mark.full),
    ],
)
def test_our_client_hears_its_user(bench: Bench, agent: str, api: str) -> None:
    with ModelEndpoint(TALK if agent == "chat" else ONE_ACTION) as endpoint:
        url = endpoint.openai_url if api == "openai" else endpoint.anthropic_url
        assert play(bench, url, f"--agent-option=provider={api}", agent=agent)["strict"] == 1.0
    assert spoken(bench.rows("select role, content from messages order by position")) == SPOKEN
    assert not any("reply_to_user" in json.dumps(request.body) for request in endpoint.requests)
    (episode,) = bench.rows("select usage, tools from episodes")
    usage, asked = json.loads(episode["usage"]), [request.usage for request in endpoint.answered]
    assert (usage["model_calls"], usage["output_tokens"]) == (6, sum(one.output for one in asked if one))
    assert "reply_to_user" not in episode["tools"]


def test_user_turns_replay_and_become_rows(bench: Bench, tmp_path: Path) -> None:
    with ModelEndpoint(TALK) as endpoint:
        play(bench, endpoint.openai_url, "--capture-llm", *OTHER_USER)
    (again,) = json.loads(bench.run("regrade", "--json").stdout)
    assert (again["status"], again["differences"]) == ("same", [])
    matched = bench.rows("select count(message) as n from model_calls")
    assert matched == [{"n": 6}]
    out, played = tmp_path / "rows.jsonl", seen(bench)
    assert sum(len(images) for _, _, images in played) == 1
    bench.run("export", "--benchmark", "counter", "--format", "trl", "--images", "files", "--out", out)
    (row,) = map(json.loads, out.read_text().splitlines())
    (last,) = [part for one in row["messages"] for part in one.get("content", []) if part["type"] == "image"]
    assert (out.parent / last["image"]).read_bytes().startswith(b"\x89PNG")
    elsewhere = Bench(tmp_path / "elsewhere", dict(bench.environ))
    elsewhere.run("import", out)
    assert spoken(elsewhere.rows("select role, content from messages order by position")) == SPOKEN
    assert seen(elsewhere) == played


def seen(bench: Bench) -> list[tuple[str, str | None, tuple[Image, ...]]]:
    """Return the conversation of the only episode, with its images."""
    with RunReader(bench.run_folder) as reader:
        (episode,) = reader.episodes()
        messages = trajectory(reader, episode).messages
    return [(one.role, one.content, tuple(one.images)) for one in messages]


def test_limits_count_over_all_turns(bench: Bench) -> None:
    with ModelEndpoint(TALK) as endpoint:
        assert play(bench, endpoint.openai_url, "--agent-option=max_steps=3")["strict"] == 0.0
    assert len(endpoint.requests) == 3
    heard = [row["content"] for row in bench.rows("select content from messages where role = 'user'")]
    assert heard == ["Task talk: press the button.", "Two more, please.", "And one more."]
