"""A small agent that speaks ACP, for behaviour that is too rare in real agents.

Start it as `python acp_stand_in.py ACTION...`; it does these actions in order on each prompt:

    ask:TITLE[:KIND]     asks for permission to run a tool, and reports the outcome
    call:TOOL:CALL       asks for permission with the fields CALL (JSON: title, kind, rawInput, ...), and calls
                         the server's TOOL with its input if it gets it
    say:TEXT             says so
    ready:PATH           says whether the file exists
    fail:CODE:MESSAGE    refuses the prompt
    exit                 ends in the middle of the prompt
    only:WORD            does nothing more if the prompt lacks the word

Before a prompt: `login` insists on it, `models:A,B` and `modes:A,B` offer some, `connect` starts the session's
server and lists its tools.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ACTIONS = sys.argv[1:]
last = 0
server: subprocess.Popen[str] | None = None


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def update(**what: Any) -> None:
    send({"method": "session/update", "params": {"sessionId": "s1", "update": what}})


def say(text: str) -> None:
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def ask(number: int, title: str, kind: str = "other") -> None:
    done(number, permitted(number, {"title": title, "kind": kind, "rawInput": {"a": 1}}))


def permitted(number: int, call: dict[str, Any]) -> dict[str, Any]:
    """Announce a call, ask for permission, and return the outcome."""
    global last
    update(sessionUpdate="tool_call", status="pending", toolCallId=f"c{number}", **call)
    options = [
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]
    if "no-yes" in ACTIONS:
        options = options[1:]
    last += 1
    params = {"sessionId": "s1", "toolCall": {"toolCallId": f"c{number}"}, "options": options}
    send({"id": 1000 + last, "method": "session/request_permission", "params": params})
    return receive()["result"]["outcome"]


def done(number: int, outcome: dict[str, Any]) -> None:
    status = "completed" if outcome.get("optionId") == "yes" else "failed"
    content = [{"type": "content", "content": {"type": "text", "text": json.dumps(outcome)}}]
    update(sessionUpdate="tool_call_update", toolCallId=f"c{number}", status=status, content=content)


def connect(entry: dict[str, Any]) -> None:
    global server
    command = [entry["command"], *entry["args"]]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    use(1, "initialize", hello)
    use(None, "notifications/initialized", {})
    use(2, "tools/list", {})


def use(number: int | None, method: str, params: dict[str, Any]) -> None:
    """Send the server a message, and read the answer to a request."""
    assert server is not None and server.stdin is not None and server.stdout is not None
    numbered = {} if number is None else {"id": number}
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **numbered, "method": method, "params": params}) + "\n")
    server.stdin.flush()
    while number is not None and json.loads(server.stdout.readline()).get("id") != number:
        pass


def prompted(text: str) -> dict[str, Any]:
    for number, what in enumerate(ACTIONS):
        word, _, rest = what.partition(":")
        if word == "ask":
            ask(number, *rest.split(":"))
        elif word == "call":
            tool, _, fields = rest.partition(":")
            call = json.loads(fields)
            outcome = permitted(number, call)
            if outcome.get("optionId") == "yes":
                use(100 + number, "tools/call", {"name": tool, "arguments": call.get("rawInput") or {}})
            done(number, outcome)
        elif word == "say":
            say(f"{rest} {text}")
        elif word == "ready":
            say(str(Path(rest).exists()))
        elif word == "fail":
            code, _, message = rest.partition(":")
            return {"error": {"code": int(code), "message": message}}
        elif word == "only" and rest not in text:
            break
        elif word == "exit":
            sys.exit(7)
    usage = {"inputTokens": 10, "outputTokens": 3, "cachedReadTokens": 4, "totalTokens": 17}
    return {"result": {"stopReason": "end_turn", "usage": usage}}


def session() -> dict[str, Any]:
    offered: dict[str, Any] = {"sessionId": "s1"}
    for what in ACTIONS:
        word, _, rest = what.partition(":")
        names = rest.split(",")
        if word == "models":
            listed = [{"modelId": name, "name": name} for name in names]
            offered["models"] = {"availableModels": listed, "currentModelId": names[0]}
        elif word == "modes":
            options = [{"value": name, "name": name} for name in names]
            kind = {"type": "select", "currentValue": names[0], "options": options}
            offered["configOptions"] = [{"id": "how", "name": "How", "category": "mode", **kind}]
    return {"result": offered}


def main() -> None:
    logged_in = "login" not in ACTIONS
    while True:
        request = receive()
        method, params = request["method"], request["params"]
        print(json.dumps(request), file=sys.stderr)
        if method == "authenticate":
            logged_in, answer = params["methodId"] == "key", {"result": {}}
        elif method == "session/new":
            if "connect" in ACTIONS:
                connect(params["mcpServers"][0])
            answer = session() if logged_in else {"error": {"code": -32000, "message": "Log in first"}}
        elif method == "session/prompt":
            answer = prompted(params["prompt"][0]["text"])
        else:
            answer = {"result": {"protocolVersion": 1}}
        send({"id": request["id"], **answer})


if __name__ == "__main__":
    print("no JSON, as some agents begin", flush=True)
    main()
