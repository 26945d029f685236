"""The agent quill for mcp-bench: how it is found, configured, launched and read."""

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mcp_bench.plugins.contracts import (
    AgentOutput,
    Capabilities,
    Fault,
    Installation,
    Launch,
    LaunchRequest,
    McpServer,
    Transcript,
)
from mcp_bench.plugins.executable import find_executable
from mcp_bench.plugins.json_lines import ODD, json_lines
from mcp_bench.plugins.login import PLACEHOLDER, LoginMissingError
from mcp_bench.plugins.mcp_config import mcp_servers
from mcp_bench.plugins.needs import Needs
from mcp_bench.plugins.turns import Turns, final_answer
from mcp_bench.recorder.trajectory import Usage

KEY, URL = "QUILL_API_KEY", "QUILL_BASE_URL"
FAULTS = {"server": "server_not_connected", "login": "login_missing", "model": "endpoint_error"}


class Quill:
    name = "quill"
    summary = "quill, the agent in one file."
    capabilities = Capabilities(reports_usage=True)  # and its built-in tools are off: it has none
    needs = Needs(
        tested="1.2.0", login=(KEY,), endpoint="https://api.openai.com/v1", endpoint_variables=(URL,)
    )
    options: Mapping[str, str] = {}

    def find(self, environ: Mapping[str, str]) -> Installation:
        return find_executable("quill", environ, "pip install quill")

    def prepare(self, request: LaunchRequest) -> Launch:
        config = request.home / "mcp.json"
        config.write_text(json.dumps(mcp_servers(request.server)))
        argv = [request.installation.executable, f"--mcp={config}"]
        argv += [f"--model={request.model}"] if request.model else []
        env = {KEY: request.environ.get(KEY, "")}
        if url := request.base_url or request.environ.get(URL):
            env = {URL: url, KEY: env[KEY] or PLACEHOLDER}
        if not env[KEY]:
            raise LoginMissingError(f"quill has no login: set {KEY}, or name an endpoint of your own")
        return Launch(tuple(argv), env, stdin=request.prompt.encode())

    def read(self, output: AgentOutput, server: McpServer) -> Transcript:
        turns, told, counts = Turns(), Transcript(), Counter[str]()
        for event in json_lines(output.stdout):
            with suppress(*ODD):  # it may have been killed in the middle of a line, or lie
                add(event, turns, told, counts, f"{server.name}/")
        told.messages = turns.messages()
        told.answer = final_answer(told.messages)
        told.usage = Usage(**counts) if counts else None
        return told


def add(event: Mapping[str, Any], turns: Turns, told: Transcript, counts: Counter[str], prefix: str) -> None:
    """Take one event into the story. What has another shape than expected may raise."""
    match event["type"]:
        case "turn":
            turns.end()
            told.model = str(event["model"])
            counts += Counter(
                model_calls=1, input_tokens=int(event["read"]), output_tokens=int(event["written"])
            )
        case "says":
            turns.text(str(event["text"]))
        case "calls":
            turns.call(str(event["id"]), str(event["tool"]).removeprefix(prefix), dict(event["arguments"]))
        case "gets":
            turns.result(str(event["id"]), str(event["text"]), is_error=event["refused"] is True)
        case "error":
            told.fault = Fault.model_validate({"kind": FAULTS[event["about"]], "detail": str(event["text"])})
