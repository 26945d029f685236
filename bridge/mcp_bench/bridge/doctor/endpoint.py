"""Check whether a model endpoint can be reached, without sending it a key."""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from mcp_bench.bridge.doctor.finding import Finding, hint, ok, problem
from mcp_bench.bridge.model_endpoint.request import NoResponseError, send
from mcp_bench.bridge.model_endpoint.url import is_http_url, without_secrets

ADVICE = "check the network and HTTPS_PROXY, or name another endpoint with --base-url"


def reach(url: str) -> Finding:
    """Send one request to a URL, through the user's proxy if any. Any answer is fine, such as 401 or 404."""
    if not is_http_url(url):
        return problem("endpoint", "its URL is not valid", "use one like http://127.0.0.1:8000/v1")
    address = without_secrets(url)
    try:
        status = send(address, read=False).status
    except NoResponseError as error:
        if error.cause == "certificate":
            advice = "set SSL_CERT_FILE to your trusted certificates"
            return problem("endpoint", f"{address}: {error}", advice)
        return problem("endpoint", f"{address} cannot be reached: {error}", ADVICE)
    if status >= 500:
        return hint(
            "endpoint", f"{address} answers with HTTP {status}", "try again later, or ask its operator"
        )
    if by_proxy(address):
        return hint(
            "endpoint",
            f"{address} answers through your proxy (HTTP {status})",
            "an agent gets HTTPS_PROXY with --home native only. In a sealed home it asks without a proxy",
        )
    return ok("endpoint", f"{address} answers (HTTP {status})")


def by_proxy(url: str) -> bool:
    """Return whether the environment names a proxy for a URL."""
    parts, proxies = urlsplit(url), getproxies()
    return any(map(proxies.get, (parts.scheme, "all"))) and not proxy_bypass(parts.hostname or "")
