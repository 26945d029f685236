"""A canary is found in any disguise, and nothing else is taken for one."""

from __future__ import annotations

import textwrap
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.recorder.taint import Canaries, Canary, fresh

pytestmark = pytest.mark.unit

CANARY = Canary("answers.json", "8be1103eafd4376cd96042a3e1db983d")
OTHER = Canary("grades-backup.db", "2deeddd9144ca3d7b3b5ee99611bc5e9")
LOOK = Canaries([CANARY, OTHER])

DISGUISES: dict[str, Callable[[str], str]] = {
    "as it is": lambda word: word,
    "upper case": str.upper,
    "reversed": lambda word: word[::-1],
    "hexadecimal": lambda word: word.encode().hex(),
    "hexadecimal with spaces": lambda word: word.encode().hex(" ").upper(),
    "array of bytes": lambda word: ", ".join(f"0x{byte:02x}" for byte in word.encode()),
    "escapes": lambda word: "".join(f"\\x{byte:02x}" for byte in word.encode()),
    "percent": lambda word: "".join(f"%{byte:02x}" for byte in word.encode()),
    "percent here and there": lambda word: "".join(
        quote(char) if at % 3 else f"%{ord(char):02X}" for at, char in enumerate(word)
    ),
    "with dashes": lambda word: "-".join(word),
    "in short lines": lambda word: "\n".join(textwrap.wrap(word, 5)),
    "first half": lambda word: word[:16],
    "second half": lambda word: word[16:],
}


@given(st.sampled_from(sorted(DISGUISES)), st.text(), st.text())
def test_a_canary_is_found_in_disguise(disguise: str, before: str, after: str) -> None:
    # neighbouring text must not merge with an encoded byte
    text = f"{before.replace('%', '')} {DISGUISES[disguise](CANARY.value)} {after}"
    assert [seen.canary for seen in LOOK.find(text)] == [CANARY]


@given(st.binary(), st.binary(), st.booleans(), st.integers(4, 76))
def test_a_canary_is_found_in_base64(before: bytes, after: bytes, url_safe: bool, width: int) -> None:
    encode = urlsafe_b64encode if url_safe else b64encode
    encoded = encode(before + CANARY.value.encode() + after).decode()
    text = "\n".join(encoded[at : at + width] for at in range(0, len(encoded), width))
    assert [(seen.canary, seen.form) for seen in LOOK.find(text)] == [(CANARY, "base64")]


@given(st.text(alphabet="0123456789abcdef", max_size=400) | st.text())
def test_nothing_else_is_taken_for_one(text: str) -> None:
    assert list(LOOK.find(text)) == []


def test_each_canary_is_reported_once_with_its_place() -> None:
    text = f"x {CANARY.value} {OTHER.value} {CANARY.value[::-1]}"
    assert {(seen.canary.place, seen.form, seen.at) for seen in LOOK.find(text)} == {
        ("answers.json", "plain", 2),
        ("grades-backup.db", "plain", 35),
    }
    assert list(Canaries([]).find(text)) == []
    assert fresh("x").value != fresh("x").value
