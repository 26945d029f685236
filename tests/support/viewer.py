"""A home whose every text is hostile, and the viewer over it."""

from __future__ import annotations

from typing import Any

from starlette.testclient import TestClient

from mcp_bench.bridge.viewer.access import ViewerAccess
from mcp_bench.bridge.viewer.app import viewer
from mcp_bench.recorder.trajectory import FunctionCall, Message, ToolCall
from tests.support.recorded import Episode, planned, record

TOKEN = "t" * 43
PORT = 8807
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{1234567*3}}\u202eabc\x1b[31m"
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
    calls: list[tuple[str, dict[str, Any], str]] = [
        (f"tool{EVIL}", {EVIL: [EVIL]}, f"!{EVIL}"),
        (
            "rows",
            {},
            '{"items": [{"a": "<b>", "c": 1}, {"a": "x", "c": null}], "deep": {"k": {"l": [1, {}]}}}',
        ),
    ]
    stories = [
        (slots[0], Episode(calls, 0.5, transcript=spoken, detail=EVIL)),
        (slots[1], Episode(calls, 1.0, transcript=spoken)),
        (slots[2], Episode(calls, None, invalid=EVIL)),
        (slots[3], Episode((), 0.0)),
    ]
    folder, episodes = record(stories, agent=f"agent{EVIL}", model=EVIL, benchmark=f"bench{EVIL}")
    return folder.path.name, episodes
