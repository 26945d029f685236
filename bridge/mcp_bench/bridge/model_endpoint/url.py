"""URLs of model endpoints, without sending anything."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit


def is_http_url(text: str) -> bool:
    """Return whether a client can open a URL: otherwise an agent would spend its time on retries."""
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - reading it checks it
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:  # such as unbalanced brackets, or a port above 65535
        return False


def without_secrets(url: str) -> str:
    """Return a URL's scheme, host, port and path only; the rest can contain a key.

    Raises:
        ValueError: it is not a URL.
    """
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
