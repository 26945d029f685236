"""Check whether a model endpoint can be reached, without sending it a key."""

from __future__ import annotations

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
    return ok("endpoint", f"{address} answers (HTTP {status})")
