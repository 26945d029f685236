"""Keys are found everywhere, and nothing else is mistaken for a key."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_bench.bridge.model_proxy.redaction import secrets_of, stored_path, without_secrets
from mcp_bench.recorder.frames.body import CHUNK, LargeBody

pytestmark = pytest.mark.unit


@given(
    before=st.integers(CHUNK - 30, CHUNK + 30),
    gaps=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    after=st.integers(0, 40),
)
@settings(max_examples=40, deadline=None)
def test_a_secret_across_chunks_of_a_large_body_is_found(before: int, gaps: list[int], after: int) -> None:
    secrets = (b"long-secret-0123456789", b"short-secret")
    text = b"a" * before
    for number, gap in enumerate(gaps):
        text += secrets[number % 2] + b"b" * gap
    text += b"c" * after
    large = LargeBody()
    large.append(text)
    clean = without_secrets(large, secrets)
    assert isinstance(clean, LargeBody)
    equal = b"".join(clean.chunks()) == without_secrets(
        text, secrets
    )  # pytest would need minutes to show a difference
    clean.close()
    assert equal


def test_short_words_are_not_secrets() -> None:
    assert (
        secrets_of([(b"authorization", b"Bearer none"), (b"user-agent", b"a-long-agent")], b"alt=sse") == ()
    )
    body = b'{"tool_choice": "none"}'
    assert without_secrets(body, secrets_of([(b"x-api-key", b"none")], b"")) == body
    assert stored_path(b"/v1/x", b"beta=true&token=abc&empty=", ()) == (
        "/v1/x?beta=true&token=[redacted]&empty=[redacted]"
    )


def test_each_cookie_has_a_secret_of_its_own() -> None:
    secrets = secrets_of([(b"cookie", b"session=s3cr3t-0123456789==; lang=en; other=an0ther-s3cr3t")], b"")
    body = b"session s3cr3t-0123456789==, other an0ther-s3cr3t, lang=en"
    assert without_secrets(body, secrets) == b"session [redacted], other [redacted], lang=en"
