"""A home whose every text is hostile, and the viewer over it."""

from __future__ import annotations

import base64
import json
from typing import Any

from starlette.testclient import TestClient

from mcp_bench.bridge.viewer.access import ViewerAccess
from mcp_bench.bridge.viewer.app import viewer
from mcp_bench.recorder.conversations.model_turns import join_model_calls
from mcp_bench.recorder.conversations.user_turns import LEFT, REPLY_TOOL
from mcp_bench.recorder.records import EpisodeEnd, now_us
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.store.asked import Asked
from mcp_bench.recorder.taint import Evidence, Scan
from mcp_bench.recorder.trajectory import FunctionCall, FunctionSchema, Message, ToolCall, ToolSchema
from mcp_bench.servers.contracts import Score
from tests.support.exchanges import completion, exchange
from tests.support.recorded import Episode, begin, planned, play, run_info

TOKEN = "t" * 43
PORT = 8807
EVIL = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{1234567*3}}\u202eabc\x1b[31m\x00"
    "[go](javascript:alert(3)) ![i](http://127.0.0.1:1/i.png) <a href='javascript:alert(4)'>x</a>"
    "</textarea></title><svg/onload=alert(5)>"
)
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
DRAWING = base64.b64encode(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(6)'/>").decode()
OWN = {"Sec-Fetch-Site": "same-origin"}


def guarded(host: str = "127.0.0.1") -> ViewerAccess:
    """Return the viewer over this test's home."""
    return ViewerAccess(viewer(), host, PORT, TOKEN)


def client(access: ViewerAccess | None = None) -> TestClient:
    """Return a browser: one that was let in, or a new one of the viewer `access`."""
    own = access or guarded()
    found = TestClient(own, base_url=f"http://127.0.0.1:{PORT}", follow_redirects=False)
    if access is None:
        assert found.get(f"/open?code={own.one_time_code()}").status_code == 200
    return found


def hostile_home() -> tuple[str, list[str]]:
    """Record a run with hostile texts wherever an agent, a server or a benchmark can put some."""
    slots = [
        planned(f"task-{number} {EVIL}", repeat=repeat).model_copy(
            update={"domain": EVIL, "split": "dev", "prompt": f"Do it. {EVIL}", "system": EVIL}
        )
        for number in range(2)
        for repeat in range(2)
    ]
    spoken = [
        Message(
            role="assistant",
            reasoning=f"I think {EVIL}",
            content=f"I say {EVIL}",
            tool_calls=[
                ToolCall(id="a", function=FunctionCall(name=f"tool{EVIL}", arguments={EVIL: [EVIL]}))
            ],
        ),
        Message(role="tool", tool_call_id="a", name=f"tool{EVIL}", content=EVIL),
        Message(role="assistant", content=EVIL),
    ]
    calls: list[tuple[str, dict[str, Any], Any]] = [
        (f"tool{EVIL}", {EVIL: [EVIL]}, f"!{EVIL}"),
        (
            "rows",
            {},
            '{"items": [{"a": "<b>", "c": 1}, {"a": "x", "c": null}], "deep": {"k": {"l": [1, {}]}}}',
        ),
    ]
    images: list[dict[str, Any]] = [
        {"type": "text", "text": EVIL},
        {"type": "image", "data": PIXEL, "mimeType": "image/png"},
        {"type": "image", "data": DRAWING, "mimeType": "image/svg+xml"},
        {"type": "image", "data": PIXEL, "mimeType": f"text/html {EVIL}"},
        {"type": "image", "data": EVIL, "mimeType": "image/png"},
    ]
    calls.append(("paint", {}, images))
    score = Score(name=EVIL, value=1.5, unit=EVIL)
    stories = [
        Episode(
            calls,
            0.5,
            transcript=spoken,
            detail=EVIL,
            assertion=EVIL,
            metrics={EVIL: 1.0},
            score=score,
            flags=[EVIL],
        ),
        Episode(calls, 1.0, transcript=spoken),
        Episode(calls, None, invalid=EVIL),
        Episode((), 0.0),
    ]
    settings: dict[str, Any] = {
        "jobs": 1,
        "options": {EVIL: EVIL},
        "harness": {"name": EVIL, "version": EVIL, "files": {"skills/x/SKILL.md": EVIL, EVIL: EVIL}},
    }
    info = run_info(*slots, agent=f"agent{EVIL}", model=EVIL, benchmark=f"bench{EVIL}", settings=settings)
    with RunFolder.create(info) as folder:
        probes = {EVIL: {"passed": False, "detail": EVIL}}
        episodes = [
            play(folder, slot, story, probes=probes) for slot, story in zip(slots, stories, strict=True)
        ]
        asked = Asked(
            EVIL, EVIL, EVIL, None, [{"role": EVIL, "content": EVIL}], [], None, EVIL, EVIL, None, 1, 2
        )
        folder.grades.put_asked(episodes[0], asked)
        evidence = Evidence("path", EVIL, EVIL, EVIL)
        folder.grades.put_scan(episodes[0], Scan("tainted", (evidence,)), now_us())
    return folder.path.name, episodes


def talked() -> tuple[str, list[str]]:
    """Record a conversation with a user by `reply_to_user`. Return its page, and the ids of its model calls."""

    def asks(*calls: tuple[str, str, dict[str, Any]]) -> Message:
        made = [
            ToolCall(id=one, function=FunctionCall(name=tool, arguments=given)) for one, tool, given in calls
        ]
        return Message(role="assistant", content="beside", tool_calls=made)

    def answers(call: str, text: str) -> Message:
        return Message(role="tool", tool_call_id=call, name="any", content=text)

    spoken = [
        Message(role="user", content="Hello."),
        asks(("c1", REPLY_TOOL, {"message": "What do you want?"})),
        answers("c1", "Some tea."),
        asks(("c2", "brew", {"what": "tea"}), ("c3", REPLY_TOOL, {"message": "It brews."})),
        answers("c2", "hot"),
        answers("c3", "Where is it?"),
        asks(("c4", REPLY_TOOL, {"message": "Here it is."})),
        answers("c4", LEFT),
        Message(role="assistant", content="Nobody reads this."),
    ]
    with RunFolder.create(run_info()) as folder:
        tool = ToolSchema(function=FunctionSchema(name=REPLY_TOOL, description="Talk.", parameters={}))
        episode = begin(folder, planned(), tools=[tool])
        calls = []
        for message in spoken:
            if message.role == "assistant":
                said = message.model_dump(exclude_none=True, exclude={"tool_calls"})
                said["tool_calls"] = [
                    {"id": one.id, "type": "function", "function": {
                        "name": one.function.name, "arguments": json.dumps(one.function.arguments)}}
                    for one in message.tool_calls
                ]  # fmt: skip
                calls.append(exchange(folder, episode, {"messages": [], "tools": TOOLS}, completion(said)))
        joined = join_model_calls(folder.recording, episode, spoken)
        folder.recording.end_episode(
            episode, EpisodeEnd(termination="agent_exit", ended_us=3_000_000), joined
        )
    return f"/runs/{folder.path.name}/{episode}", calls


TOOLS = [{"type": "function", "function": {"name": f"tool {EVIL}"}}]


def captured() -> tuple[str, list[str]]:
    """Record an episode with a refused request and a turn. Return its page, and the ids of both calls."""
    with RunFolder.create(run_info()) as folder:
        episode = begin(folder, planned())
        sent = {
            "temperature": 0.5,
            "tools": TOOLS,
            "messages": [{"role": "user", "content": f"As sent. {EVIL}"}],
        }
        calls = [
            exchange(folder, episode, sent, b"{}", status=429),
            exchange(folder, episode, sent, completion({"role": "assistant", "content": f"Hello. {EVIL}"})),
        ]
        messages = [
            Message(role="user", content="Hi."),
            Message(role="assistant", content=f"Hello. {EVIL}"),
        ]
        joined = join_model_calls(folder.recording, episode, messages)
        folder.recording.end_episode(
            episode, EpisodeEnd(termination="agent_exit", ended_us=3_000_000), joined
        )
    return f"/runs/{folder.path.name}/{episode}", calls
