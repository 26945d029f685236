"""Lines that an MCP connection can carry, and that a proxy must neither change nor lose."""

from __future__ import annotations

import json

DEEP = 100_000
CALL = '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"echo","arguments":%s}}'


def call(rpc_id: str = "1", arguments: str = "{}") -> bytes:
    return (CALL % (rpc_id, arguments)).encode()


def large(size: int) -> bytes:
    """Return a call of about `size` bytes."""
    return call("20", json.dumps({"text": "x" * size}))


# Each without its newline.
ODD_LINES: dict[str, bytes] = {
    "plain request": call(),
    "batch": b"[" + call("1") + b"," + call("2") + b"]",
    "batch with a response and a notification": b'[{"id":1,"result":{}},{"method":"notifications/x"}]',
    "empty batch": b"[]",
    "batch of nonsense": b'[1,null,"x",[[]],{}]',
    "float id": call("1.5"),
    "float id that is whole": call("1.0"),
    "exponent id": call("1e0"),
    "string id": call('"a b"'),
    "empty string id": call('""'),
    "string id with escapes": call('"\\u00e9\\n"'),
    "huge id": call("9" * 400),
    "id that no float holds": call("1e999"),
    "negative zero id": call("-0"),
    "null id": call("null"),
    "boolean id": call("true"),
    "object id": call('{"a":1}'),
    "no jsonrpc": b'{"id":3,"method":"ping"}',
    "wrong jsonrpc": b'{"jsonrpc":"1.0","id":3,"method":"ping"}',
    "array params": b'{"jsonrpc":"2.0","id":4,"method":"tools/call","params":["echo",{}]}',
    "text params": b'{"jsonrpc":"2.0","id":4,"method":"tools/call","params":"echo"}',
    "text arguments": call("5", '"not an object"'),
    "no arguments": b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo"}}',
    "method that is no text": b'{"jsonrpc":"2.0","id":5,"method":7}',
    "method and result at once": b'{"jsonrpc":"2.0","id":5,"method":"ping","result":{}}',
    "error without a code": b'{"jsonrpc":"2.0","id":5,"error":"broken"}',
    "error with a null id": b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}',
    "answer to nothing": b'{"jsonrpc":"2.0","id":"never asked","result":{}}',
    "unknown method": b'{"jsonrpc":"2.0","id":6,"method":"vendor/own.thing","params":{"_meta":{"x":[1]}}}',
    "unknown notification": b'{"jsonrpc":"2.0","method":"notifications/vendor/thing","params":{}}',
    "cancelled without an id": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}',
    "cancelled twice over": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}',
    "future version": b'{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2099-01-01"}}',
    "future frame": b'{"jsonrpc":"3.0","stream":9,"frame":"binary","of":{"what":"ever"}}',
    "unknown members": b'{"jsonrpc":"2.0","id":8,"method":"ping","priority":9,"x-trace":{"a":null}}',
    "duplicate keys": b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","method":"tools/list"}',
    "odd spacing": b' \t{ "jsonrpc" :\t"2.0" , "id" : 1 , "method" : "ping" }  ',
    "carriage return": call() + b"\r",
    "carriage return inside": b'{"jsonrpc":"2.0",\r"id":1,"method":"ping"}',
    "only a carriage return": b"\r",
    "empty": b"",
    "spaces": b"   ",
    "no JSON": b"Server listening on stdio",
    "half JSON": b'{"jsonrpc":"2.0","id":1,"meth',
    "two messages on a line": call("1") + call("2"),
    "a number": b"42",
    "a text": b'"tools/call"',
    "null": b"null",
    "NaN": b'{"jsonrpc":"2.0","id":1,"result":{"x":NaN,"y":-Infinity}}',
    "invalid UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\xff\xfe\x80"}}',
    "cut UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"pi\xe2\x82"}',
    "UTF-16": '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16-le"),
    "byte order mark": b"\xef\xbb\xbf" + call(),
    "zero bytes": b'{"jsonrpc":"2.0","id":1,"method":"ping\x00"}\x00',
    "control characters": bytes(range(1, 10)) + bytes(range(11, 32)) + b"\x7f\x1b[31m",
    "lone surrogate": call("1", '{"text":"\\ud800 and \\udfff"}'),
    "encoded surrogate": b'{"jsonrpc":"2.0","id":1,"method":"\xed\xa0\x80"}',
    "line separators": call("1", '{"text":"\u2028 \u2029 \u0085 \x0b \x0c \u001c"}'),
    "beyond the BMP": call("1", '{"text":"\U0001f9ea\U0010ffff"}'),
    "combining and right to left": call("1", '{"te\u0301xt":"\u202eabc\u202c\u05d0"}'),
    "deep nesting": b'{"jsonrpc":"2.0","id":1,"method":"x","params":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "never closed": b"[" * DEEP,
    "many members": b"{" + b",".join(b'"k%d":%d' % (n, n) for n in range(5000)) + b"}",
    "long method": b'{"jsonrpc":"2.0","id":1,"method":"' + b"m" * 70_000 + b'"}',
    "as long as a pipe": b'"' + b"x" * 65_533 + b'"',
    "one longer than a pipe": b'"' + b"x" * 65_534 + b'"',
}
