"""Check options of `mcp-bench record` before anything long starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from mcp_bench.trainer.trial.commands import run


def dry_run(arguments: Sequence[str]) -> None:
    """Let `mcp-bench record` check its arguments.

    Raises:
        StepFailedError: it refuses them; it has said why.
    """
    run(["record", *arguments, "--dry-run", "--json"])


@contextmanager
def answering(host: str) -> Iterator[str]:
    """Yield an address of this machine where something answers, in place of a model that is served later."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((host, 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://{host}:{server.server_port}"
        finally:
            server.shutdown()
