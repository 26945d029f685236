"""Tags of rows."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.recorder.store.signatures import canonical

pytestmark = pytest.mark.unit
VALUES = (
    st.none()
    | st.text(st.characters())
    | st.binary()
    | st.integers()
    | st.booleans()
    | st.floats()
    | st.sampled_from(["\ud800", "\x7f\x80\u2028", 1e16, 2**63, 2**64, -(2**63) - 1])
)


@given(st.lists(VALUES))
def test_a_row_is_tagged_as_its_json(values: list[object]) -> None:
    """Any other spelling would make the tags of older runs wrong."""
    text = json.dumps(
        values, ensure_ascii=False, separators=(",", ":"), default=lambda blob: {"blob": blob.hex()}
    )
    assert canonical(values) == text.encode("utf-8", "surrogatepass")
