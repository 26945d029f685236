"""What is said about a request that had no response."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_bench.bridge.model_endpoint.request import NoResponseError, send

pytestmark = pytest.mark.component
NOBODY = "https://127.0.0.1:9/v1"


def test_certificates_that_are_gone_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They say nothing about the endpoint, nor to a program that reads no SSL_CERT_FILE."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gone.pem"))
    with pytest.raises(NoResponseError, match=r"SSL_CERT_FILE names .*/gone\.pem") as raised:
        send(NOBODY)
    assert raised.value.cause == "certificate"
    for url, proxies in ((NOBODY, False), (NOBODY.replace("https", "http"), True)):
        with pytest.raises(NoResponseError) as raised:
            send(url, proxies=proxies)
        assert raised.value.cause == "unreachable"
