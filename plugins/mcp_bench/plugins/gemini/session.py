"""Read a session of Gemini CLI: stdout, and `~/.gemini/tmp/<project>/chats/session-*.jsonl`.

The file has more than stdout: reasoning, which calls are parallel, the results that went back to the model,
and the usage of every answer. It is a log: a message is written again, whole, when its calls have returned.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_bench.plugins.agent_folder import AgentFolder
from mcp_bench.plugins.contracts import McpServer
from mcp_bench.plugins.output import ODD, Session, is_session_id
from mcp_bench.plugins.text_files import json_lines
from mcp_bench.recorder.trajectory import Usage

NAME_LENGTH = 63
WRAPPED = re.compile(r"<untrusted_context>\n(.*)\n</untrusted_context>", re.DOTALL)


@dataclass
class GeminiSession(Session):
    id: str | None = None
    called: bool = False
    """A tool of the server answered."""
    unapproved: str = ""
    """The error of a call that needed approval."""
    result: dict[str, Any] | None = None
    """The last event, if the session came to its end."""


def model_names(server: McpServer) -> dict[str, str]:
    """Map the names that Gemini CLI gives the server's tools to their own."""
    return {model_name(server.name, tool): tool for tool in server.tools}


def model_name(server: str, tool: str) -> str:
    name = re.sub(r"[^a-zA-Z0-9_.:-]", "_", f"mcp_{server}_{tool}")
    return name if len(name) <= NAME_LENGTH else f"{name[:30]}...{name[-30:]}"


def read_session(stdout: Path, home: AgentFolder, server: McpServer) -> GeminiSession:
    """Read a session as far as it exists and makes sense. `home` is `~/.gemini`."""
    session = GeminiSession()
    for event in json_lines(stdout):
        with suppress(*ODD):
            add_event(session, event)
    messages = logged(home, session.id)
    names = model_names(server)
    prefix = f"mcp_{server.name}_"
    for message in messages:
        with suppress(*ODD):
            add_message(session, message, names, prefix)
    session.usage = usage_of(session.result, messages)
    return session


def add_event(session: GeminiSession, event: Mapping[str, Any]) -> None:
    match event["type"]:
        case "init":
            session.model, session.id = str(event["model"]), str(event["session_id"])
        case "tool_result" if event["status"] == "error":
            message = str(event["error"]["message"])
            if "requires user confirmation" in message:
                session.unapproved = message
        case "result":
            session.result = dict(event)


def logged(home: AgentFolder, session_id: str | None) -> list[dict[str, Any]]:
    """Return the model's messages from the session's log, each in its last version."""
    messages: dict[str, dict[str, Any]] = {}
    for line in log_lines(home, session_id):
        with suppress(*ODD):
            if line["type"] == "gemini":
                messages[line["id"]] = line
    return list(messages.values())


def log_lines(home: AgentFolder, session_id: str | None) -> Iterator[dict[str, Any]]:
    """Yield the lines of the session's log. `home` is `~/.gemini`."""
    if is_session_id(session_id):
        yield from home.lines(f"tmp/*/chats/session-*-{session_id[:8]}.jsonl")


def thought_text(thought: Mapping[str, Any]) -> str:
    subject, description = thought["subject"], thought["description"]
    return "\n\n".join(filter(None, (subject and f"**{subject}**", description)))


def add_message(
    session: GeminiSession, message: Mapping[str, Any], names: Mapping[str, str], prefix: str
) -> None:
    turns = session.turns
    turns.end()
    session.model = str(message["model"])
    for thought in message.get("thoughts") or ():
        turns.reasoning(thought_text(thought))
    turns.text(text_of(message["content"]))
    for call in message.get("toolCalls") or ():
        called = str(call["name"])
        turns.call(call["id"], names.get(called, called.removeprefix(prefix)), call["args"])
        # a picture comes in a part of its own; a call that was cut off has no result
        for part in call.get("result") or ():
            if "functionResponse" in part:
                response = part["functionResponse"]["response"]
                session.called |= called.startswith(prefix) and "output" in response
                turns.result(call["id"], result_text(response), is_error="error" in response)


def text_of(content: Any) -> str:
    """Return the text of `content`, which is a string or a list of parts."""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def result_text(response: Mapping[str, Any]) -> str:
    """Return a tool's result without the words that Gemini CLI puts around it for the model."""
    text = response.get("output", response.get("error"))
    if not isinstance(text, str):
        return json.dumps(response, ensure_ascii=False)
    wrapped = WRAPPED.fullmatch(text)
    return wrapped[1].replace("&lt;/untrusted_context&gt;", "</untrusted_context>") if wrapped else text


def usage_of(result: Mapping[str, Any] | None, messages: Iterable[Mapping[str, Any]]) -> Usage | None:
    """Return the usage of all requests, side work included, from the last event.

    A session that was cut off has no last event; then the usage is that of its messages. Thoughts count as
    output.
    """
    counts: list[Mapping[str, Any]] = []
    for message in messages:
        with suppress(*ODD):  # some messages have no tokens
            counts.append({key: int(value) for key, value in message["tokens"].items()})
    with suppress(*ODD):
        stats = (result or {})["stats"]
        return Usage(
            input_tokens=stats["input_tokens"],
            output_tokens=stats["total_tokens"] - stats["input_tokens"],
            cached_tokens=stats["cached"],
            model_calls=len(counts),
        )
    with suppress(*ODD):
        if counts:
            return Usage(
                input_tokens=sum(tokens["input"] for tokens in counts),
                output_tokens=sum(tokens["output"] + tokens["thoughts"] for tokens in counts),
                cached_tokens=sum(tokens["cached"] for tokens in counts),
                model_calls=len(counts),
            )
    return None
