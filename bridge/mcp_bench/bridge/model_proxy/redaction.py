"""Redaction of model requests: keys are removed everywhere, and only a few headers are stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import parse_qsl, quote

from mcp_bench.recorder.frames.body import Body, LargeBody

REDACTED = "[redacted]"
SECRET_LETTERS = 8
"""Shorter values do not count as secrets: they may be words of the request (`none`)."""

KEY_HEADERS = {
    b"authorization",
    b"api-key",
    b"cookie",
    b"proxy-authorization",
    b"x-api-key",
    b"x-auth-token",
    b"x-goog-api-key",
}
REQUEST_HEADERS = {
    b"anthropic-beta",
    b"anthropic-version",
    b"content-encoding",
    b"content-type",
    b"openai-beta",
    b"user-agent",
    b"x-stainless-retry-count",
}
RESPONSE_HEADERS = {
    b"content-encoding",
    b"content-type",
    b"openai-processing-ms",
    b"request-id",
    b"retry-after",
    b"x-request-id",
}
QUERY = {"alt", "api-version", "beta"}
"""Query parameters whose values are stored."""

Headers = Iterable[tuple[bytes, bytes]]


def secrets_of(headers: Headers, query: bytes) -> tuple[bytes, ...]:
    """Return the secrets of a request, longest first. Header names must be in lower case."""
    words = [word for name, value in headers if name in KEY_HEADERS for word in _words(name, value)]
    words += [value.encode() for name, value in _pairs(query) if name not in QUERY]
    found = {word for word in words if len(word) >= SECRET_LETTERS}
    return tuple(sorted(found, key=len, reverse=True))


def _words(name: bytes, value: bytes) -> list[bytes]:
    if name == b"cookie":  # NAME=VALUE; NAME=VALUE (RFC 6265)
        return [pair.partition(b"=")[2].strip() for pair in value.split(b";")]
    return value.split()


def stored_headers(headers: Headers, allowed: set[bytes], secrets: Iterable[bytes]) -> dict[str, str]:
    """Return the headers in `allowed`, without secrets."""
    return {
        name.decode("ascii", "replace"): _clean(value, secrets).decode("utf-8", "replace")
        for name, value in headers
        if name in allowed
    }


def stored_path(path: bytes, query: bytes, secrets: Iterable[bytes]) -> str:
    """Return path and query. Values of parameters that may be secret are redacted."""
    shown = _clean(path, secrets).decode("utf-8", "replace")
    if not query:
        return shown
    pairs = [(quote(name), quote(value) if name in QUERY else REDACTED) for name, value in _pairs(query)]
    return f"{shown}?{'&'.join(f'{name}={value}' for name, value in pairs)}"


def without_secrets(body: Body, secrets: Iterable[bytes]) -> Body:
    """Return a body with `[redacted]` in place of each secret, or the same object if it contains none.

    Raises:
        StorageError: a large body cannot be read or written.
    """
    secrets = tuple(secrets)
    if isinstance(body, bytes):
        return _clean(body, secrets)
    if not secrets or not any(secret in window for window in _windows(body, secrets) for secret in secrets):
        return body
    clean = LargeBody()
    for part in _cleaned(body, secrets):
        clean.append(part)
    body.close()
    return clean


def _clean(text: bytes, secrets: Iterable[bytes]) -> bytes:
    for secret in secrets:
        text = text.replace(secret, REDACTED.encode())
    return text


def _windows(body: LargeBody, secrets: tuple[bytes, ...]) -> Iterator[bytes]:
    """Yield a body in overlapping pieces, so that one of them contains each secret completely."""
    overlap = max(map(len, secrets)) - 1
    held = b""
    for chunk in body.chunks():
        window = held + chunk
        yield window
        held = window[-overlap:]


def _cleaned(body: LargeBody, secrets: tuple[bytes, ...]) -> Iterator[bytes]:
    overlap = max(map(len, secrets)) - 1
    held = b""
    for chunk in body.chunks():
        held = _clean(held + chunk, secrets)
        sure = max(0, len(held) - overlap)
        yield held[:sure]
        held = held[sure:]
    yield held


def _pairs(query: bytes) -> list[tuple[str, str]]:
    return parse_qsl(query.decode("utf-8", "replace"), keep_blank_values=True)
