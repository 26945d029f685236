"""One session with an agent: open it, prompt it turn by turn, and report it line by line on stdout.

    {"type": "agent", "result": {...}}                     its answer to `initialize`
    {"type": "session", "result": {...}}                   its answer to `session/new`
    {"type": "choice", "category": "model" | "mode", "value": NAME}
    {"type": "prompt", "number": N}                        user turn N begins; counted from 0
    {"type": "update", "update": {...}}                    a `session/update`, unchanged
    {"type": "permission", "call": {...}, "tool": NAME or null, "allowed": true or false}
                                                           the server's tool that the call is (perhaps) for
    {"type": "stop", "result": {...}}                      its answer to `session/prompt`
    {"type": "failed", "method": M, "error": {"code", "message", "data"}}
    {"type": "error", "kind": "usage" | "mcp" | "endpoint", "detail": TEXT}    why it gave up

A stop reason does not show whether a turn succeeded: some agents end one as usual when their model endpoint
fails.
"""

from __future__ import annotations

import json
import math
import os
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from acp import PROTOCOL_VERSION, RequestError, spawn_stdio_connection
from acp.connection import Connection

from mcp_bench.clients.acp.permission import Server, Verdict, decide, verdict
from mcp_bench.clients.acp.plan import Plan
from mcp_bench.clients.events import ClientError

POLL_SECONDS = 0.02
LINE_BYTES = 64 * 1024 * 1024
GONE = -32000_1
"""Our own error code for an agent that ended in the middle of a request."""


class Handler:
    """Handles the agent's requests and notifications."""

    def __init__(self, plan: Plan) -> None:
        self._server = None if plan.allow is None else Server(plan.server, plan.allow)
        self._calls: dict[str, dict[str, Any]] = {}
        """Tool calls reported so far, by id: a request for permission may name only the id."""

    async def handle(self, method: str, params: Any, is_notification: bool) -> Any:
        """Answer a request of the agent; report a notification.

        Raises:
            RequestError: this client does not support the method.
        """
        if method == "session/update":
            update = params["update"]
            if "toolCallId" in update:
                call = self._calls.setdefault(update["toolCallId"], {})
                call.update(written_input(update), **known(update))
            say({"type": "update", "update": update})
        elif method == "session/request_permission":
            return {"outcome": self._decide(params)}
        elif not is_notification:
            raise RequestError.method_not_found(method)
        return None

    def _decide(self, params: Mapping[str, Any]) -> dict[str, Any]:
        call = {**self._calls.get(params["toolCall"]["toolCallId"], {}), **known(params["toolCall"])}
        judged = Verdict(None, allow=True) if self._server is None else verdict(call, self._server)
        outcome = decide(params["options"], allow=judged.allow)
        chosen = [option for option in params["options"] if option["optionId"] == outcome.get("optionId")]
        allowed = bool(chosen) and str(chosen[0].get("kind")).startswith("allow")
        say({"type": "permission", "call": call, "tool": judged.tool, "allowed": allowed})
        return outcome


async def converse(plan: Plan, prompts: Sequence[str]) -> None:
    """Start the agent and send it the prompts in sequence.

    Raises:
        ClientError: the agent cannot be started, did not open its session in time, or refused something.
    """
    talk = Handler(plan)
    program, *arguments = plan.command
    try:
        async with spawn_stdio_connection(
            talk.handle, program, *arguments, env=os.environ, stderr=None, limit=LINE_BYTES
        ) as (agent, process):
            session = await begin(agent, process, plan)
            for number, prompt in enumerate(prompts):
                say({"type": "prompt", "number": number})
                content = [{"type": "text", "text": prompt}]
                answer = await ask(agent, "session/prompt", {"sessionId": session, "prompt": content})
                say({"type": "stop", "result": answer})
    except OSError as error:
        raise ClientError("usage", f"cannot start {program}: {error.strerror or error}") from error


async def begin(agent: Connection, process: Process, plan: Plan) -> str:
    """Open a session, wait until its servers are ready, and return its id.

    Raises:
        ClientError: it took too long, or the agent ended, or answered in another form than the protocol's.
    """
    with anyio.move_on_after(plan.wait) as limit:
        try:
            session = await open_session(agent, plan)
        except (AttributeError, LookupError, TypeError) as error:
            raise ClientError(
                "usage", f"the agent's session is not as ACP describes it: {error!r}"
            ) from error
        if plan.ready is not None:
            while not Path(plan.ready).exists():  # noqa: ASYNC240  (another process makes it)
                if process.returncode is not None:
                    raise ClientError("mcp", "the agent ended before it had listed the tools")
                await anyio.sleep(POLL_SECONDS)
        limit.deadline = math.inf
        await anyio.sleep(plan.settle)
        return session
    raise ClientError("mcp", f"the agent had not listed the tools after {plan.wait:g} seconds")


async def open_session(agent: Connection, plan: Plan) -> str:
    """Open a session, choose model, mode and options, and return its id.

    Raises:
        ClientError: the agent has no such model or mode.
    """
    client = {"name": "mcp-bench", "title": "mcp-bench", "version": "1"}
    able = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
    hello = {"protocolVersion": PROTOCOL_VERSION, "clientCapabilities": able, "clientInfo": client}
    say({"type": "agent", "result": await ask(agent, "initialize", hello)})
    if plan.login is not None:
        await ask(agent, "authenticate", {"methodId": plan.login})
    new: dict[str, Any] = {"cwd": os.getcwd(), "mcpServers": plan.mcpServers}  # noqa: PTH109
    session = await ask(agent, "session/new", {**new, "_meta": plan.meta} if plan.meta else new)
    say({"type": "session", "result": session})
    for category, value in (("model", plan.model), ("mode", plan.mode)):
        if value is not None:
            await choose(agent, session, category, value)
            say({"type": "choice", "category": category, "value": value})
    for option in session.get("configOptions") or ():
        if option["id"] in plan.choices:
            setting = {"configId": option["id"], "value": plan.choices[option["id"]]}
            await ask(agent, "session/set_config_option", {"sessionId": session["sessionId"], **setting})
    return str(session["sessionId"])


async def choose(agent: Connection, session: Mapping[str, Any], category: str, value: str) -> None:
    """Choose a model or a mode, in either of the protocol's two ways.

    Raises:
        ClientError: the session does not offer it.
    """
    target = {"sessionId": session["sessionId"]}
    offered: list[str] = []
    for option in session.get("configOptions") or ():
        if option.get("category") == category and option.get("type") == "select":
            offered = [choice["value"] for choice in choices(option["options"])]
            if value in offered:
                setting = {**target, "configId": option["id"], "value": value}
                await ask(agent, "session/set_config_option", setting)
                return
    known = session.get(f"{category}s") or {}
    listed = [
        str(one.get("modelId", one.get("id"))) for one in known.get(f"available{category.title()}s", ())
    ]
    if value in listed:
        await ask(agent, f"session/set_{category}", {**target, f"{category}Id": value})
        return
    names = ", ".join(offered or listed) or "none to choose"
    raise ClientError("usage", f"the agent has no {category} {value!r} (it has: {names})")


def choices(options: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the values to choose from, ungrouped."""
    return [choice for option in options for choice in option.get("options") or (option,)]


async def ask(agent: Connection, method: str, params: Mapping[str, Any]) -> Any:
    """Send a request and return its result.

    Raises:
        ClientError: it failed; a `failed` event has the details.
    """
    try:
        return await agent.send_request(method, params)
    except RequestError as error:
        failure = {"code": error.code, "message": str(error), "data": error.data}
    except ConnectionError as error:
        failure = {"code": GONE, "message": f"the agent ended: {error}", "data": None}
    say({"type": "failed", "method": method, "error": failure})
    raise ClientError("endpoint", f"{method} failed: {failure['message']}")


def known(call: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in call.items() if value is not None and key != "sessionUpdate"}


def written_input(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input of a call that writes it as its content, as `rawInput`, or nothing."""
    with suppress(KeyError, TypeError, ValueError, RecursionError):
        (part,) = call["content"]
        if isinstance(given := json.loads(part["content"]["text"]), dict):
            return {"rawInput": given}
    return {}


def say(event: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")  # ASCII only: safe in any locale, always one line
    sys.stdout.flush()
