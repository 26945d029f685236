"""Which requests the end of an episode waits for."""

import anyio
import pytest

from mcp_bench.bridge.tap.traffic import Traffic
from mcp_bench.recorder.frames import jsonrpc

pytestmark = [pytest.mark.anyio, pytest.mark.unit]

REFUSED = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'


def call(rpc_id: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"x"}}' % rpc_id.encode()


async def waits(traffic: Traffic) -> bool:
    """Return whether `calls_settled` still waits for a call."""
    done = anyio.Event()

    async def wait() -> None:
        await traffic.calls_settled()
        done.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        return not done.is_set()


@pytest.mark.parametrize("rpc_id", ["[1]", "1.5", "true", "{}"])
async def test_a_call_refused_without_its_id_is_settled(rpc_id: str) -> None:
    traffic = Traffic()
    traffic.from_client(1, [jsonrpc.parse(call(rpc_id))])
    assert await waits(traffic)
    traffic.from_server(1, [jsonrpc.parse(REFUSED)])
    assert not await waits(traffic)


async def test_an_error_for_a_broken_line_settles_no_call() -> None:
    traffic = Traffic()
    traffic.from_client(1, [jsonrpc.parse(call("1")), jsonrpc.parse(b"no JSON")])
    traffic.from_server(1, [jsonrpc.parse(REFUSED)])
    assert await waits(traffic)
    traffic.from_server(1, [jsonrpc.parse(b'{"id":1,"result":{}}')])
    assert not await waits(traffic)


async def test_an_error_without_an_id_settles_the_last_call() -> None:
    traffic = Traffic()
    traffic.from_client(2, [jsonrpc.parse(call("1"))])
    traffic.from_client(1, [jsonrpc.parse(call("1")), jsonrpc.parse(call("[]"))])
    traffic.from_server(1, [jsonrpc.parse(REFUSED)])
    traffic.from_server(1, [jsonrpc.parse(b'{"id":1,"result":{}}')])
    assert await waits(traffic)
    traffic.closed(2)
    assert not await waits(traffic)


async def test_over_http_an_error_without_an_id_answers_its_exchange() -> None:
    """Many servers answer so to GET if they have no stream for it, or one already."""
    traffic = Traffic()
    for number in (1, 2):
        traffic.from_client(1, [jsonrpc.parse(b'{"id":%d,"method":"tools/list"}' % number)])
    traffic.from_server(1, [jsonrpc.parse(REFUSED)], set())
    traffic.from_server(1, [jsonrpc.parse(REFUSED)], {"1"})
    traffic.from_server(1, [jsonrpc.parse(b'{"id":2,"result":{}}')], {"2"})
    assert traffic.seen.answered == {"tools/list"}


async def test_a_call_with_the_id_null_is_answered_by_its_own_answer() -> None:
    traffic = Traffic()
    traffic.from_client(1, [jsonrpc.parse(call("null"))])
    traffic.from_server(1, [jsonrpc.parse(b'{"id":null,"result":{}}')])
    assert not await waits(traffic)
    assert traffic.seen.answered == {"tools/call"}


@pytest.mark.parametrize("answered", ["7", '"7"'])
async def test_a_server_may_spell_a_number_differently(answered: str) -> None:
    traffic = Traffic()
    traffic.from_client(2, [jsonrpc.parse(call("7"))])
    traffic.from_client(1, [jsonrpc.parse(call("7.0"))])
    traffic.closed(2)
    traffic.from_server(1, [jsonrpc.parse(f'{{"id":{answered},"result":{{}}}}'.encode())])
    assert not await waits(traffic)
    assert traffic.seen.answered == {"tools/call"}


@pytest.mark.parametrize("cancelled", ["7", '"7"'])
async def test_a_call_cancelled_by_its_number_is_not_waited_for(cancelled: str) -> None:
    """The SDK's server takes both, and does not answer."""
    traffic = Traffic()
    traffic.from_client(1, [jsonrpc.parse(call("7"))])
    cancel = f'{{"method":"notifications/cancelled","params":{{"requestId":{cancelled}}}}}'
    traffic.from_client(1, [jsonrpc.parse(cancel.encode())])
    assert not await waits(traffic)


async def test_ready_is_reported_once_after_handshake_and_listing() -> None:
    reported: list[bool] = []
    traffic = Traffic(on_ready=lambda: reported.append(True))
    for number, method in enumerate(("tools/list", "server/discover", "tools/list"), 1):
        traffic.from_client(1, [jsonrpc.parse(b'{"id":%d,"method":"%s"}' % (number, method.encode()))])
        traffic.from_server(1, [jsonrpc.parse(b'{"id":%d,"result":{}}' % number)])
        assert traffic.seen.ready is (number >= 2)
    assert reported == [True]
