"""Corrupt an agent's output, to test reading it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from mcp_bench.plugins.contracts import Agent, AgentOutput, McpServer, Transcript

Changes = list[tuple[int, int, Any]]
"""Line, position in it, and its replacement: bytes that end the line, or a value for one of its fields."""

ODD_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
CHANGES: st.SearchStrategy[Changes] = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 80), st.binary(max_size=6) | ODD_VALUES),
    min_size=1,
    max_size=6,
)


def read_spoiled(agent: Agent, output: AgentOutput, server: McpServer, changes: Changes) -> Transcript:
    """Corrupt an agent's output, read it, and check that the transcript can be stored."""
    with tempfile.TemporaryDirectory() as folder:
        spoiled = AgentOutput(
            Path(folder, "stdout"), Path(folder, "stderr"), Path(folder, "home"), Path(folder), None
        )
        shutil.copytree(output.home, spoiled.home, symlinks=True)
        for path in (output.stdout, *spoiled.home.rglob("*.jsonl")):
            target = spoiled.stdout if path == output.stdout else path
            target.write_bytes(spoil(path.read_bytes().splitlines(), changes))
        transcript = agent.read(spoiled, server)
        again = Transcript.model_validate_json(transcript.model_dump_json().encode())
        assert again == transcript
        return transcript


def spoil(lines: list[bytes], changes: Changes) -> bytes:
    for number, place, value in changes:
        at = number % len(lines)
        if isinstance(value, bytes):
            lines[at] = lines[at][: place * 8] + value
            continue
        try:
            event = json.loads(lines[at])
        except ValueError:
            continue
        fields = list(leaves(event))
        if fields:
            holder, key = fields[place % len(fields)]
            holder[key] = value
            lines[at] = json.dumps(event).encode()
    return b"\n".join(lines)


def leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place in a JSON value as the object or list that holds it and the key there."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(pairs):
        yield value, key
        yield from leaves(inner)
