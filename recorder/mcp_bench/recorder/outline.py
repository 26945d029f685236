"""What a frame says that is too large to be read into memory: its top, seen through a memory map.

Only the spans of an object's members are looked for; the values in them are not built. What is no
well-formed JSON-RPC object gives an `invalid` frame, as everywhere.
"""

from __future__ import annotations

import mmap
import re

import anyio

from mcp_bench.recorder import wire
from mcp_bench.recorder.body import Body, LargeBody

_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_MEMBER = re.compile(rb"\s*+(" + _STRING + rb")\s*+:\s*+", re.DOTALL)
_PLAIN = re.compile(rb"[^\s,{}\[\]\"]++")
_STRUCTURE = re.compile(_STRING + rb"|[{}\[\]]", re.DOTALL)
_COMMA = re.compile(rb"\s*+,")
_SPACE = re.compile(rb"\s*+")
_SMALL = 4096
"""Bytes of the longest id, method or tool name that is read."""

Span = tuple[int, int]


def parse_large(body: LargeBody) -> wire.Frame:
    """Say what a large frame is: kind, id, method, tool, outcome. The arguments of a call are left out,
    and a batch is not taken apart. Never raises."""
    body.file.flush()
    with mmap.mmap(body.file.fileno(), body.size, access=mmap.ACCESS_READ) as text:
        start = _past_space(text, 0)
        if text[start : start + 1] == b"[":
            return wire.Frame("batch")
        try:
            return _frame(text, members(text, start))
        except ValueError:
            return wire.INVALID


async def read_frame(body: Body) -> wire.Frame:
    """Say what a frame is, without holding up the event loop for a large one."""
    if isinstance(body, LargeBody):
        return await anyio.to_thread.run_sync(parse_large, body)
    return wire.parse(body)


def members(text: mmap.mmap, start: int) -> dict[str, Span]:
    """Return the span of each member's value of the object that begins at `start`.

    Raises:
        ValueError: there is no object, or it does not end.
    """
    if text[start : start + 1] != b"{":
        raise ValueError("not an object")
    found: dict[str, Span] = {}
    position = start + 1
    while member := _MEMBER.match(text, position):
        end = _end_of_value(text, member.end())
        key = member[1]
        if len(key) <= _SMALL:
            found[str(wire.loads(key))] = (member.end(), end)
        comma = _COMMA.match(text, end)
        if comma is None:
            position = end
            break
        position = comma.end()
    if text[(closing := _past_space(text, position)) : closing + 1] != b"}":
        raise ValueError("the object does not end")
    return found


def _end_of_value(text: mmap.mmap, start: int) -> int:
    if text[start : start + 1] not in (b"{", b"[", b'"'):
        plain = _PLAIN.match(text, start)
        if plain is None:
            raise ValueError("a value is missing")
        return plain.end()
    depth = 0
    for token in _STRUCTURE.finditer(text, start):
        first = text[token.start()]
        depth += (first in b"{[") - (first in b"}]")
        if depth == 0:
            return token.end()
    raise ValueError("a value does not end")


def _past_space(text: mmap.mmap, start: int) -> int:
    space = _SPACE.match(text, start)
    return start if space is None else space.end()


def _frame(text: mmap.mmap, top: dict[str, Span]) -> wire.Frame:
    small = {key: wire.loads(text[a:b]) for key, (a, b) in top.items() if b - a <= _SMALL}
    if "method" in small and "params" in top and "params" not in small:
        # of a call that carries much, its name and id are enough to tell what it was
        a, _ = top["params"]
        inner = members(text, a) if text[a : a + 1] == b"{" else {}
        small["params"] = {
            key: wire.loads(text[a:b])
            for key, (a, b) in inner.items()
            if b - a <= _SMALL and key != "arguments"
        }
    if "result" in top and "result" not in small:
        a, _ = top["result"]
        inner = members(text, a) if text[a : a + 1] == b"{" else {}
        flag = inner.get("isError")
        small["result"] = {"isError": flag is not None and text[flag[0] : flag[1]] == b"true"}
    if "error" in top:
        small.setdefault("error", None)
    return wire.message(small)
