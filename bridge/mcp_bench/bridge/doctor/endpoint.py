"""Whether a model endpoint can be reached, without showing it any key."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

import httpx2

from mcp_bench.bridge.doctor.finding import Finding, hint, ok, problem

CONNECT_SECONDS = 5.0
ADVICE = "look at the network and at HTTPS_PROXY, or name another endpoint: --base-url URL"


def reach(url: str) -> Finding:
    """Ask for a URL, once, by the user's proxy if there is one. Any answer will do, such as 401 or 404."""
    try:
        address = without_secrets(url)
    except ValueError:
        address = ""
    if not address.startswith(("http://", "https://")):
        return problem("endpoint", "its URL is none: http://... or https://... is needed", "set it right")
    try:
        # redirects are not followed: another host is another endpoint
        with (
            httpx2.Client(timeout=CONNECT_SECONDS, headers={"User-Agent": "mcp-bench-doctor"}) as client,
            client.stream("GET", address) as response,
        ):
            status = response.status_code
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        words = str(error) or type(error).__name__
        if isinstance(error, httpx2.TimeoutException):
            words = f"no answer within {CONNECT_SECONDS:g} s"
        if "certificate" in words.lower():
            return problem(
                "endpoint", f"{address}: {words}", "set SSL_CERT_FILE to the certificates that you trust"
            )
        return problem("endpoint", f"{address} cannot be reached: {words}", ADVICE)
    if status >= 500:
        return hint("endpoint", f"{address} answers with HTTP {status}", "wait, or ask who runs it")
    return ok("endpoint", f"{address} answers (HTTP {status})")


def without_secrets(url: str) -> str:
    """Return a URL's scheme, host, port and path only: a key may stand in the rest.

    Raises:
        ValueError: it is no URL.
    """
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
