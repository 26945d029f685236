"""One request to a model endpoint, with an answer or the reason why there is none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx2

SECONDS = 5.0
"""For connecting, and between two parts of an answer."""
MOST_BYTES = 8 << 20
"""Of an answer that are read. The list of a large gateway has a megabyte."""
AGENT = {"User-Agent": "mcp-bench"}

Cause = Literal["unreachable", "no answer", "certificate", "url"]
"""`no answer`: something listens, but gave no whole answer in time. `certificate`: it is not trusted here,
which may be different for another program. `url`: it is no HTTP URL."""


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes


class NoResponseError(Exception):
    """There was no response; the text says why."""

    def __init__(self, cause: Cause, text: str) -> None:
        super().__init__(text)
        self.cause: Cause = cause


def send(
    url: str,
    headers: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
    *,
    read: bool = True,
    proxies: bool = True,
) -> Response:
    """Send a GET, or with a body a POST. Redirects are not followed: another host is another endpoint.

    Args:
        url: where to.
        headers: of the request.
        body: sent as JSON.
        read: read the body of the response, too.
        proxies: use the proxies of the environment (HTTPS_PROXY), and its certificates (SSL_CERT_FILE).

    Raises:
        NoResponseError: there was no response.
    """
    try:
        # making the context for TLS takes longer than a request on this machine
        tls = url.startswith("https:")
        named = os.environ.get("SSL_CERT_FILE") if tls and proxies else None
        if named and not Path(named).exists():
            raise NoResponseError("certificate", f"SSL_CERT_FILE names a file that is not there: {named}")
        with (
            httpx2.Client(timeout=SECONDS, headers=AGENT, trust_env=proxies, verify=tls) as client,
            client.stream("POST" if body else "GET", url, headers=headers, json=body) as response,
        ):
            found = bytearray()
            if read:
                for chunk in response.iter_bytes():
                    found += chunk
                    if len(found) > MOST_BYTES:
                        break
            return Response(response.status_code, bytes(found))
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
        raise NoResponseError("url", "its URL is not valid") from error
    except (httpx2.HTTPError, OSError, ValueError) as error:
        raise no_response(error) from error


def no_response(error: Exception) -> NoResponseError:
    words = str(error).rstrip(".") or type(error).__name__
    if "certificate" in words.lower():
        return NoResponseError("certificate", words)
    if isinstance(error, httpx2.TimeoutException):
        words = f"no answer within {SECONDS:g} s"
    connected = not isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout, OSError))
    return NoResponseError("no answer" if connected else "unreachable", words)
