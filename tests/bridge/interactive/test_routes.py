"""Each message of a connection belongs to the task that was open when its call arrived."""

from types import SimpleNamespace
from typing import Any

import pytest

from mcp_bench.bridge.interactive.routes import Routes
from mcp_bench.recorder.frames import jsonrpc
from tests.support.recorded import line, request

pytestmark = [pytest.mark.unit, pytest.mark.anyio]


def task(name: str) -> Any:
    return SimpleNamespace(episode=name, request_stored=lambda *_: None, request_settled=lambda *_: None)


@pytest.mark.parametrize("cancelled", [5, "5"])
async def test_progress_after_a_cancelled_call_is_of_the_later_task(cancelled: int | str) -> None:
    """A server need not answer a cancelled call."""
    current = task("ep_1")
    routes = Routes(1, lambda: current)
    assert routes.from_client(jsonrpc.parse(request(5, "t", {}))) == "ep_1"
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": cancelled}}
    assert routes.from_client(jsonrpc.parse(line(cancel))) == "ep_1"
    current = task("ep_2")
    assert routes.from_client(jsonrpc.parse(request(6, "t", {}))) == "ep_2"
    progress = {
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": {"progressToken": 6, "progress": 1},
    }
    assert routes.from_server(jsonrpc.parse(line(progress))) == "ep_2"
    assert routes.close() == {"ep_1", "ep_2"}


async def test_an_answer_with_the_same_number_is_of_the_task() -> None:
    """A client may count in floats, and a server in integers."""
    current = task("ep_1")
    routes = Routes(1, lambda: current)
    routes.from_client(jsonrpc.parse(request(7.0, "t", {})))
    current = task("ep_2")
    assert routes.from_server(jsonrpc.parse(b'{"id": 7, "result": {}}')) == "ep_1"
    assert routes.close() == set()


async def test_over_http_an_error_without_an_id_answers_its_exchange() -> None:
    """The SDK's server answers so to a second stream for GET, while a call of the same session runs."""
    current = task("ep_1")
    routes = Routes(1, lambda: current)
    refused = jsonrpc.parse(b'{"id": null, "error": {"code": -32600, "message": "Conflict"}}')
    routes.from_client(jsonrpc.parse(request(5, "t", {})))
    assert routes.from_server(refused, among=set()) is None
    assert routes.from_server(jsonrpc.parse(b'{"id": 5, "result": {}}'), among={"5"}) == "ep_1"
    routes.from_client(jsonrpc.parse(request(6, "t", {})))
    assert routes.from_server(refused, among={"6"}) == "ep_1"
