"""Read the events of our ACP client; `mcp_bench.clients.acp.conversation` documents them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bench.plugins.contracts import AgentOutput, Fault, McpServer
from mcp_bench.plugins.output import ODD, Session, cut_short, endpoint_fault, not_approved, overflowed
from mcp_bench.plugins.text_files import json_lines, tail
from mcp_bench.recorder.trajectory import Usage

AUTH_REQUIRED = -32000
"""The protocol's error code for a login that is missing."""
GONE = -32000_1
"""The client's own code for an agent that ended in the middle of a request."""
FORMS = (
    "mcp__{}__{}",
    "mcp_{}_{}",
    "{}_{}",
    "{}__{}",
    "{}/{}",
    "{}.{}",
    "mcp.{}.{}",
    "{}:{}",
    "{}-{}",
    "{1}_{0}",
)
"""How agents combine a server and a tool into one name."""


@dataclass
class AcpSession(Session):
    id: str | None = None
    denied: set[str] = field(default_factory=set)
    """Names of the server's tools that it was not allowed to call."""
    trouble: str | None = None
    """Its text after an error state, if it distinguishes that from an answer (as codex-acp does)."""
    error: dict[str, Any] | None = None
    """The error on which the client gave up."""
    failed: dict[str, Any] | None = None
    """The request that the agent refused, with its error."""
    stops: list[dict[str, Any]] = field(default_factory=list)
    """The agent's answers to the prompts."""


def read_session(stdout: Path, server: McpServer) -> AcpSession:
    """Read a session as far as it exists and makes sense."""
    session = AcpSession()
    reader = Reader(session, server)
    for event in json_lines(stdout):
        with suppress(*ODD):
            reader.add(event)
    reader.flush()
    return session


class Reader:
    """Assembles a session: text comes in chunks, and calls come in updates."""

    def __init__(self, session: AcpSession, server: McpServer) -> None:
        self.session = session
        self._server = server
        self._names = {name: tool for tool in server.tools for name in names_of(server, tool)}
        self._kind = ""
        self._text: list[str] = []
        self._calls: dict[str, dict[str, Any]] = {}
        """The current state of each call by id, in the order of their first mention."""
        self._refused: set[str] = set()
        """Ids of calls that were refused: some agents never say how such a call ended."""

    def add(self, event: Mapping[str, Any]) -> None:
        session = self.session
        match event["type"]:
            case "session":
                session.id = str(event["result"]["sessionId"])
                session.model = current_model(event["result"])
            case "choice" if event["category"] == "model":
                session.model = str(event["value"])
            case "update":
                self._update(event["update"])
            case "permission" if not event["allowed"]:
                if event["tool"]:
                    session.denied.add(self._names.get(event["tool"], str(event["tool"])))
                self._refused.add(str(event["call"]["toolCallId"]))
            case "prompt" if event["number"]:
                self.flush()
                session.turns.end()
            case "stop":
                if self._calls:  # a text after a call that never ended is the answer
                    self._end()
                session.stops.append(event["result"])
                if event["result"].get("usage"):
                    session.usage = plus(session.usage or Usage(), event["result"]["usage"])
            case "failed":
                session.failed = dict(event)
            case "error":
                session.error = dict(event)

    def _update(self, update: Mapping[str, Any]) -> None:
        kind = update["sessionUpdate"]
        if kind in ("agent_message_chunk", "agent_thought_chunk"):
            if isinstance(update["content"].get("text"), str):
                self._chunk(kind, update["content"]["text"])
        elif kind == "session_info_update":
            if update["_meta"]["codex"]["threadStatus"]["type"] == "systemError":
                self.session.trouble = ""
        elif kind in ("tool_call", "tool_call_update"):
            self.flush()
            self._call(update)

    def _chunk(self, kind: str, text: str) -> None:
        if self.session.trouble is not None:
            self.session.trouble += text
            return
        if kind != self._kind:
            self.flush()
        if text and self._calls and self._over(next(reversed(self._calls))):  # earlier ones may never end
            self._end()
        self._kind = kind
        self._text.append(text)

    def flush(self) -> None:
        """Add the last text."""
        text, turns = "".join(self._text), self.session.turns
        self._text.clear()
        if self._kind == "agent_thought_chunk":
            turns.reasoning(text)
        else:
            turns.text(text)

    def _over(self, key: str) -> bool:
        return done(self._calls[key]) or key in self._refused

    def _end(self) -> None:
        self._calls.clear()
        self._refused.clear()
        self.session.turns.end()

    def _call(self, update: Mapping[str, Any]) -> None:
        key = str(update["toolCallId"])
        # an agent reports all parallel calls before the first is done, and may use an id again after that
        ended = all(map(self._over, self._calls))
        begins = update["sessionUpdate"] == "tool_call"
        if not begins and key not in self._calls and self.session.turns.find(key):
            if done(update):  # it comes late, and does not name its tool again; a first result stays
                self.session.turns.result(key, text_of(update), is_error=update["status"] == "failed")
            return
        is_new = begins and (ended or key not in self._calls)
        if self._calls and ended and (is_new or key not in self._calls):
            self._end()
        call = self._calls.setdefault(key, {})
        call.update({name: value for name, value in update.items() if value is not None})
        name, arguments = self._named(call)
        known = None if is_new else self.session.turns.find(key)
        if known is None:
            self.session.turns.call(key, name, arguments)
        else:
            known.function.name, known.function.arguments = name, arguments
        if done(call):
            self.session.turns.result(key, text_of(call), is_error=call["status"] == "failed")

    def _named(self, call: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the tool's own name and the arguments, from the place where this agent puts them."""
        given = call.get("rawInput")
        arguments = given if isinstance(given, dict) else {}
        if {"server", "tool", "arguments"} <= arguments.keys():  # the form of codex-acp
            return str(arguments["tool"]), dict(arguments["arguments"] or {})
        text = f"{call.get('title', '')} {json.dumps(call.get('_meta') or {})}"
        # most names are not in the text, and Python keeps 512 compiled patterns only
        fitting = [
            name
            for name in self._names
            if name in text and re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text)
        ]
        name = max(fitting, key=len, default=None)
        return (self._names[name] if name else str(call.get("title", "unknown"))), arguments


def names_of(server: McpServer, tool: str) -> set[str]:
    plain = re.sub(r"[^a-zA-Z0-9_-]", "_", tool)
    return {form.format(server.name, name) for form in FORMS for name in (tool, plain)} | {tool}


def done(call: Mapping[str, Any]) -> bool:
    return call.get("status") in ("completed", "failed")


def text_of(call: Mapping[str, Any]) -> str:
    """Return the text of a call's result."""
    parts = [part["content"] for part in call.get("content") or () if part.get("type") == "content"]
    if texts := [part["text"] for part in parts if part.get("type") == "text"]:
        return "\n".join(texts)
    output = call.get("rawOutput", "")
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def current_model(session: Mapping[str, Any]) -> str | None:
    """Return the model that a session begins with, if it says."""
    for option in session.get("configOptions") or ():
        if option.get("category") == "model" and option.get("type") == "select":
            return str(option["currentValue"])
    model = (session.get("models") or {}).get("currentModelId")
    return None if model is None else str(model)


def plus(before: Usage, turn: Mapping[str, Any]) -> Usage:
    """Add the usage in the answer to a prompt (the protocol's `Usage`, which is not stable yet).

    Agents differ in whether input includes cached tokens, and output includes thoughts: the total shows it.
    """
    given, made = int(turn["inputTokens"]), int(turn["outputTokens"])
    cached, thoughts = int(turn.get("cachedReadTokens") or 0), int(turn.get("thoughtTokens") or 0)
    kept = cached + int(turn.get("cachedWriteTokens") or 0)
    apart = int(turn.get("totalTokens") or given + made) - given - made
    return Usage(
        input_tokens=(before.input_tokens or 0) + given + (kept if apart in (kept, kept + thoughts) else 0),
        output_tokens=(before.output_tokens or 0)
        + made
        + (thoughts if apart in (thoughts, kept + thoughts) else 0),
        cached_tokens=(before.cached_tokens or 0) + cached,
    )


def fault(session: AcpSession, answer: str | None, output: AgentOutput, failure: str) -> Fault | None:
    """Return what failed outside the agent. A stop reason does not show it.

    Args:
        failure: pattern of the answer, or of the standard error, of an agent that ends the turn as usual
            although its model endpoint failed.
    """
    if denied := not_approved(session.denied):
        denied.ours = True
        return denied
    if session.failed is not None:
        return refused(session.failed)
    if session.trouble is not None:
        own = overflowed(session.trouble) or cut_short(session.trouble)
        return None if own else endpoint_fault(session.trouble)
    if session.error is not None:
        kind = "server_not_connected" if session.error.get("kind") == "mcp" else "bad_option"
        return Fault.model_validate({"kind": kind, "detail": str(session.error.get("detail"))})
    found = re.search(failure, tail(output.stderr) if answer is None else answer)
    return endpoint_fault(found.group()) if found else None


def refused(failed: Mapping[str, Any]) -> Fault | None:
    """Return the fault that an agent's error response means. An agent that just ended has crashed."""
    with suppress(*ODD):
        method, error = failed["method"], failed["error"]
        if error["code"] == GONE:
            return None
        detail = f"{method}: {error['message']} {json.dumps(error['data'])}"
        if error["code"] == AUTH_REQUIRED or method == "authenticate":
            return Fault(kind="login_missing", detail=detail)
        if overflowed(detail) or cut_short(detail):
            return None
        return (
            endpoint_fault(detail) if method == "session/prompt" else Fault(kind="bad_option", detail=detail)
        )
    return None
