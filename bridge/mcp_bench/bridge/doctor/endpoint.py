"""Check whether a model endpoint can be reached, without sending it a key."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

import httpx2

from mcp_bench.bridge.doctor.finding import Finding, hint, ok, problem

CONNECT_SECONDS = 5.0
ADVICE = "check the network and HTTPS_PROXY, or name another endpoint with --base-url"


def reach(url: str) -> Finding:
    """Send one request to a URL, through the user's proxy if any. Any answer is fine, such as 401 or 404."""
    try:
        address = without_secrets(url)
    except ValueError:
        address = ""
    if not address.startswith(("http://", "https://")):
        return problem("endpoint", "its URL is not valid", "use a URL that starts with http:// or https://")
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
                "endpoint", f"{address}: {words}", "set SSL_CERT_FILE to your trusted certificates"
            )
        return problem("endpoint", f"{address} cannot be reached: {words}", ADVICE)
    if status >= 500:
        return hint(
            "endpoint", f"{address} answers with HTTP {status}", "try again later, or ask its operator"
        )
    return ok("endpoint", f"{address} answers (HTTP {status})")


def without_secrets(url: str) -> str:
    """Return a URL's scheme, host, port and path only; the rest can contain a key.

    Raises:
        ValueError: it is not a URL.
    """
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
