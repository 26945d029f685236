"""The agent quill for mcp-bench: how it is found, configured, launched and read."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mcp_bench.plugins.sdk import (
    MCP_CONFIG,
    ODD,
    AgentOutput,
    Capabilities,
    CliAgent,
    Fault,
    LaunchRequest,
    McpServer,
    Needs,
    Session,
    json_lines,
    plus,
)

FAULTS = {"server": "server_not_connected", "login": "login_missing", "model": "endpoint_error"}


class Quill(CliAgent[Session]):  # find, prepare and read come from CliAgent
    name = "quill"
    summary = "quill, the agent in one file."
    program = "quill"
    install = "install -D docs/examples/quill/quill.py ~/.local/bin/quill"
    capabilities = Capabilities(reports_usage=True)  # builtin_tools_off by default: quill has none
    needs = Needs(
        tested="1.2.0",
        login=("QUILL_API_KEY",),
        endpoint="https://api.openai.com/v1",
        endpoint_variables=("QUILL_BASE_URL",),
    )

    def arguments(self, request: LaunchRequest) -> list[str]:
        argv = [f"--mcp={request.home / MCP_CONFIG}"]
        return [*argv, f"--model={request.model}"] if request.model else argv

    def read_session(self, output: AgentOutput, server: McpServer) -> Session:
        session = Session()
        for event in json_lines(output.stdout):
            with suppress(*ODD):  # it may have been killed in the middle of a line, or lie
                add(session, event, f"{server.name}/")
        return session

    def fault(self, session: Session, output: AgentOutput, server: McpServer) -> Fault | None:
        for event in json_lines(output.stdout):
            if event.get("type") == "error" and (kind := FAULTS.get(str(event.get("about")))):
                return Fault.model_validate({"kind": kind, "detail": str(event.get("text"))})
        return None


def add(session: Session, event: Mapping[str, Any], prefix: str) -> None:
    """Add one event to the session. An event of an unexpected shape can raise any of `ODD`."""
    turns = session.turns
    match event["type"]:
        case "turn":
            turns.end()
            session.model = str(event["model"])
            session.usage = plus(session.usage, int(event["read"]), int(event["written"]))
        case "says":
            turns.text(str(event["text"]))
        case "calls":
            turns.call(str(event["id"]), str(event["tool"]).removeprefix(prefix), dict(event["arguments"]))
        case "gets":
            turns.result(str(event["id"]), str(event["text"]), is_error=event["refused"] is True)
