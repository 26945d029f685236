"""The tokens of captured model calls, as arrays: what a policy sampled, with which probabilities.

Arrays are little-endian: ids have 4 bytes each (unsigned), log-probabilities 4 bytes (IEEE 754, natural). A
prompt that begins with the whole of an earlier call of its episode (prompt and answer) names that call, and
stores what comes after it. So the tokens of a conversation are stored once, however many turns it has.
"""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_bench.recorder.model_api.dialects.dialect import EXTENSION, MALFORMED, JSONObject, Tokens
from mcp_bench.recorder.store.signatures import Signer, tag_rows

_COLUMNS = "call, extends, version, prompt, tokens, logprobs"


def storable(tokens: Tokens) -> bool:
    """Return whether the arrays would hold these tokens without loss."""
    ids, prompt, logprobs = tokens.ids, tokens.prompt_ids, tokens.logprobs
    if not ids or prompt is None or logprobs is None:
        return False
    try:  # an endpoint may report anything
        return (
            len(ids) == len(logprobs)
            and _ids(_bytes("I", ids)) == ids
            and _ids(_bytes("I", prompt)) == prompt
            and _floats(_bytes("f", logprobs)) == logprobs
        )
    except (TypeError, OverflowError, ValueError):
        return False


def add_tokens(db: sqlite3.Connection, signer: Signer, call: str, episode: str, tokens: Tokens) -> None:
    """Add the tokens of a call, which are `storable`, to an open transaction."""
    prompt = _bytes("I", tokens.prompt_ids or ())
    extends, known = None, b""
    for other, (before, answer, *_) in _whole(db, episode).items():
        whole = before + answer
        if len(whole) > len(known) and prompt.startswith(whole):
            extends, known = other, whole
    row = (call, episode, extends, tokens.version, prompt[len(known) :])
    arrays = (_bytes("I", tokens.ids or ()), _bytes("f", tokens.logprobs or ()))
    db.execute(
        "INSERT INTO model_tokens (call, episode, extends, version, prompt, tokens, logprobs)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*row, *arrays),
    )
    tag_rows(db, signer, "model_tokens", "call = ?", call)


def read_tokens(db: sqlite3.Connection, episode: str) -> dict[str, Tokens]:
    """Return the tokens of an episode's calls; none in a recording of an earlier version."""
    if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'model_tokens'").fetchone() is None:
        return {}
    return {
        call: Tokens(_ids(prompt), _ids(answer), _floats(logprobs), version)
        for call, (prompt, answer, logprobs, version) in _whole(db, episode).items()
    }


def without_tokens(answer: JSONObject) -> JSONObject:
    """Return an answer without the tokens that `add_tokens` stores."""
    made = {name: value for name, value in answer.items() if name not in EXTENSION}
    if isinstance(made.get("choices"), list):
        made["choices"] = [_choice(choice) for choice in made["choices"]]
    return made


def with_tokens(answer: JSONObject, tokens: Tokens | None) -> JSONObject:
    """Return an answer with its tokens in the fields that every dialect reads."""
    if tokens is None:
        return answer
    return {
        **answer,
        "prompt_token_ids": tokens.prompt_ids,
        "token_ids": tokens.ids,
        "token_logprobs": tokens.logprobs,
        "system_fingerprint": tokens.version,
    }


def _choice(choice: object) -> object:
    if not isinstance(choice, Mapping):
        return choice
    made = {name: value for name, value in choice.items() if name not in EXTENSION}
    with contextlib.suppress(*MALFORMED):  # what is odd is stored nowhere else, and neither are other tokens
        entries = (made.get("logprobs") or {}).get("content") or ()
        if not any(entry.get("top_logprobs") for entry in entries):
            made["logprobs"] = None
    return made


def _whole(db: sqlite3.Connection, episode: str) -> dict[str, tuple[bytes, bytes, bytes, str | None]]:
    """Return the arrays by call, each with its whole prompt, in the order in which they were stored."""
    found: dict[str, tuple[bytes, bytes, bytes, str | None]] = {}
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM model_tokens WHERE episode = ? ORDER BY rowid",  # noqa: S608
        [episode],
    )
    for call, extends, version, prompt, answer, logprobs in rows:
        before = b"".join(found[extends][:2]) if extends in found else b""
        found[call] = (before + prompt, answer, logprobs, version)
    return found


def _bytes(kind: str, values: Sequence[float]) -> bytes:
    made = array(kind, values)
    if sys.byteorder == "big":
        made.byteswap()
    return made.tobytes()


def _ids(stored: bytes) -> list[int]:
    return _array("I", stored).tolist()


def _floats(stored: bytes) -> list[float]:
    return _array("f", stored).tolist()


def _array(kind: str, stored: bytes) -> array[Any]:
    made: array[Any] = array(kind)
    made.frombytes(stored)
    if sys.byteorder == "big":
        made.byteswap()
    return made
