"""When a proxied session is over."""

from __future__ import annotations

import queue
from pathlib import Path
from typing import cast

import pytest

from mcp_bench.bridge.proxy.recording import SessionRecording
from mcp_bench.bridge.proxy.stdio import Event, Session
from mcp_bench.recorder.errors import StorageError

pytestmark = pytest.mark.component


class Events(queue.SimpleQueue[Event]):
    """Then nothing happens until the time is over; without a limit of time, the server exits at last."""

    def get(self, block: bool = True, timeout: float | None = None) -> Event:
        try:
            return super().get(block=False)
        except queue.Empty:
            if timeout is None:
                return Event("exited")
            raise


class Recording:
    """Of a session whose client waits for an answer, or not."""

    def __init__(self, answered: bool | StorageError) -> None:
        self.answered = answered

    def parse_pending(self) -> bool:
        if isinstance(self.answered, StorageError):
            raise self.answered
        return self.answered


@pytest.mark.parametrize(
    ("answered", "happened", "over"),
    [
        (True, ("input_ended",), "overdue"),
        (False, ("input_ended",), "exited"),
        (False, ("input_ended", "client_gone"), "overdue"),
        (False, ("output_ended",), "overdue"),
        (True, (), "exited"),
        (StorageError("the disk is full"), ("input_ended",), "failed"),
    ],
)
def test_a_server_has_a_limit_once_nobody_waits_for_it(
    answered: bool | StorageError, happened: tuple[str, ...], over: str
) -> None:
    session = Session()
    session.events = Events()
    session.recording = cast(SessionRecording, Recording(answered))
    for kind in happened:
        session.events.put(Event(kind))  # type: ignore[arg-type]
    assert session._until_over().kind == over


def test_a_request_that_the_server_cancels_is_its_own(bench_home: Path) -> None:
    """Both sides count their requests from 1."""
    recording = SessionRecording(["a-server"], "normal")
    recording.append_unparsed("client", [b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'])
    cancels = b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}'
    recording.append_unparsed("server", [cancels])
    assert not recording.parse_pending()
    recording.append_unparsed("client", [cancels])
    assert recording.parse_pending()
    recording.end("agent_exit", None, None, 0)


@pytest.mark.parametrize("answered", ["1", '"1"'])
def test_an_answer_with_the_same_number_ends_the_wait(bench_home: Path, answered: str) -> None:
    recording = SessionRecording(["a-server"], "normal")
    recording.append_unparsed("client", [b'{"jsonrpc": "2.0", "id": 1.0, "method": "tools/list"}'])
    assert not recording.parse_pending()
    answer = f'{{"jsonrpc": "2.0", "id": {answered}, "result": {{}}}}'
    recording.append_unparsed("server", [answer.encode()])
    assert recording.parse_pending()
    recording.end("agent_exit", None, None, 0)
