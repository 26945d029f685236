"""An agent records an episode with a served model of random weights, whose calls are held to the schemas."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from mcp_bench.trainer.engine.app import make_app
from mcp_bench.trainer.engine.load import load
from mcp_bench.trainer.serving.require_key import VARIABLE, RequireKey
from mcp_bench.trainer.serving.server import claim_port
from tests.support.bench_commands import Bench
from tests.trainer.engine.test_engine_types import TYPES, random_checkpoint

pytestmark = pytest.mark.system

SERVER = """\
from typing import Literal
from mcp.server import MCPServer

server = MCPServer("buttons")

@server.tool()
def press(button: Literal["red", "blue"], hard: bool) -> str:
    "Press a button."
    return f"pressed {button}"

server.run("stdio")
"""


class CallRequired:
    """Ask for a call in each request: the agent leaves that to the model."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def changed() -> Any:
            message = await receive()
            if message.get("body"):
                body = json.loads(message["body"]) | {"tool_choice": "required", "parallel_tool_calls": False}
                message["body"] = json.dumps(body).encode()
            return message

        await self._app(scope, changed, send)


@contextmanager
def listening(folder: Path) -> Iterator[str]:
    """Serve a checkpoint in a thread of this process, and yield its base URL."""
    app = make_app(load(folder, calls="hermes", device="cpu"), "random")
    app.add_middleware(CallRequired)
    app.add_middleware(RequireKey)
    port = claim_port("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize(
    "kind", [kind if kind == "llama" else pytest.param(kind, marks=pytest.mark.full) for kind in TYPES]
)
def test_random_weights_make_valid_calls(
    kind: str, tmp_path: Path, bench_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "a-key")
    bench = Bench(bench_home, {"OPENAI_API_KEY": "a-key"})
    (tmp_path / "buttons.py").write_text(SERVER)
    config = {"max_position_embeddings": 8192}
    with listening(random_checkpoint(kind, tmp_path / "model", **config)) as url:
        bench.run(
            "record", "--server", f"{sys.executable} {tmp_path / 'buttons.py'}", "--agent", "chat",
            "--prompt", "Press one.", "--base-url", url, "--model", "random", "--agent-option", "max_steps=2",
        )  # fmt: skip
    calls = bench.rows("select tool, outcome from calls")
    assert calls == [{"tool": "press", "outcome": "ok"}] * 2
    [(episode)] = bench.rows("select * from episodes")
    assert episode["invalid"] is None
    assert json.loads(episode["tools"])[0]["function"]["name"] == "press"
