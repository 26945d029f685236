"""What Gemini CLI says of a session: events on stdout, and `~/.gemini/tmp/<project>/chats/session-*.jsonl`.

The file is the fuller one: reasoning, which calls are parallel, what went back to the model, the usage of
every answer. It is a log: a message is written again, whole, when its calls have come back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bench.plugins.contracts import McpServer
from mcp_bench.plugins.json_lines import ODD, json_lines
from mcp_bench.plugins.turns import Turns
from mcp_bench.recorder.trajectory import Usage

NAME_LENGTH = 63
WRAPPED = re.compile(r"<untrusted_context>\n(.*)\n</untrusted_context>", re.DOTALL)


@dataclass
class Session:
    turns: Turns = field(default_factory=Turns)
    usage: Usage | None = None
    model: str | None = None
    id: str | None = None
    called: bool = False
    """A tool of the server answered."""
    unapproved: str = ""
    """What was said of a call that nobody was there to approve."""
    result: dict[str, Any] | None = None
    """The last event, where it came to that."""


def model_names(server: McpServer) -> dict[str, str]:
    """Return the server's tools by the names that Gemini CLI gives them."""
    return {model_name(server.name, tool): tool for tool in server.tools}


def model_name(server: str, tool: str) -> str:
    name = re.sub(r"[^a-zA-Z0-9_.:-]", "_", f"mcp_{server}_{tool}")
    return name if len(name) <= NAME_LENGTH else f"{name[:30]}...{name[-30:]}"


def read_session(stdout: Path, home: Path, server: McpServer) -> Session:
    """Read a session as far as it is there and makes sense. `home` is `~/.gemini`."""
    session = Session()
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


def add_event(session: Session, event: Mapping[str, Any]) -> None:
    match event["type"]:
        case "init":
            session.model, session.id = str(event["model"]), str(event["session_id"])
        case "tool_result" if event["status"] == "error":
            message = str(event["error"]["message"])
            if "requires user confirmation" in message:
                session.unapproved = message
        case "result":
            session.result = dict(event)


def logged(home: Path, session_id: str | None) -> list[dict[str, Any]]:
    """Return the model's messages out of the session's own log, each as it was written last."""
    messages: dict[str, dict[str, Any]] = {}
    if re.fullmatch(r"[0-9a-f-]{36}", session_id or ""):
        for path in sorted((home / "tmp").glob(f"*/chats/session-*-{(session_id or '')[:8]}.jsonl")):
            for line in json_lines(path):
                with suppress(*ODD):
                    if line["type"] == "gemini":
                        messages[line["id"]] = line
    return list(messages.values())


def add_message(session: Session, message: Mapping[str, Any], names: Mapping[str, str], prefix: str) -> None:
    turns = session.turns
    turns.end()
    session.model = str(message["model"])
    for thought in message.get("thoughts") or ():
        subject, description = thought["subject"], thought["description"]
        turns.reasoning("\n\n".join(filter(None, (subject and f"**{subject}**", description))))
    turns.text(text_of(message["content"]))
    for call in message.get("toolCalls") or ():
        called = str(call["name"])
        turns.call(call["id"], names.get(called, called.removeprefix(prefix)), call["args"])
        (part,) = call["result"]
        response = part["functionResponse"]["response"]
        session.called |= called.startswith(prefix) and "output" in response
        turns.result(call["id"], result_text(response), is_error="error" in response)


def text_of(content: Any) -> str:
    """Return the text of what is a text or a list of parts."""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def result_text(response: Mapping[str, Any]) -> str:
    """Return what a tool gave, without the words that Gemini CLI puts around it for the model."""
    text = response.get("output", response.get("error"))
    if not isinstance(text, str):
        return json.dumps(response, ensure_ascii=False)
    wrapped = WRAPPED.fullmatch(text)
    return wrapped[1].replace("&lt;/untrusted_context&gt;", "</untrusted_context>") if wrapped else text


def usage_of(result: Mapping[str, Any] | None, messages: Iterable[Mapping[str, Any]]) -> Usage | None:
    """Return the usage of all requests, side work included, where the last event tells it.

    Else, for a session that was cut off, that of the messages. Thoughts count as output.
    """
    told: list[Mapping[str, Any]] = []
    with suppress(*ODD):
        told = [{key: int(value) for key, value in message["tokens"].items()} for message in messages]
    with suppress(*ODD):
        stats = (result or {})["stats"]
        return Usage(
            input_tokens=stats["input_tokens"],
            output_tokens=stats["total_tokens"] - stats["input_tokens"],
            cached_tokens=stats["cached"],
            model_calls=len(told),
        )
    with suppress(*ODD):
        if told:
            return Usage(
                input_tokens=sum(tokens["input"] for tokens in told),
                output_tokens=sum(tokens["output"] + tokens["thoughts"] for tokens in told),
                cached_tokens=sum(tokens["cached"] for tokens in told),
                model_calls=len(told),
            )
    return None
