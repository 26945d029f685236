#!/usr/bin/env python3
"""quill: an example agent in one file. It asks a model, and calls the tools of an MCP server.

    quill --mcp FILE [--model NAME] < PROMPT        QUILL_API_KEY and QUILL_BASE_URL name the endpoint

It prints one JSON event per line, and always exits with code 0.
"""

import argparse
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

VERSION = "1.2.0"


def report(kind: str, **fields: Any) -> None:
    print(json.dumps({"type": kind, **fields}), flush=True)


class Server:
    """An MCP server on stdio, protocol version 2025-06-18."""

    def __init__(self, command: list[str]) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.last = 0
        client = {"name": "quill", "version": VERSION}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        self.send({"method": "notifications/initialized"})
        self.tools = self.ask("tools/list")["tools"]

    def send(self, message: dict[str, Any]) -> None:
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def ask(self, method: str, **params: Any) -> Any:
        self.last += 1
        self.send({"id": self.last, "method": method, "params": params})
        while line := self.process.stdout.readline():
            message = json.loads(line)
            if message.get("id") == self.last and "method" not in message:
                return (
                    message["result"]
                    if "result" in message
                    else {"isError": True, "content": [message["error"]]}
                )
        raise ConnectionError("the MCP server closed the connection")


def ask_model(messages: list[Any], tools: list[Any], model: str | None) -> Any:
    url = os.environ.get("QUILL_BASE_URL", "https://api.openai.com/v1").rstrip("/") + "/chat/completions"
    key = os.environ.get("QUILL_API_KEY", "")
    body = {"model": model or "quill-large", "messages": messages, "tools": tools}
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        return json.load(answer)


def main() -> None:
    parser = argparse.ArgumentParser(prog="quill")
    parser.add_argument("--version", action="version", version=f"quill {VERSION}")
    parser.add_argument("--mcp", required=True)
    parser.add_argument("--model")
    options = parser.parse_args()
    ((name, entry),) = json.loads(Path(options.mcp).read_text())["mcpServers"].items()
    try:
        server = Server([entry["command"], *entry["args"]])
    except (OSError, ValueError, LookupError) as error:
        report("error", about="server", text=str(error))
        return
    keys = ("name", "description")
    tools = [
        {
            "type": "function",
            "function": {**{key: tool[key] for key in keys}, "parameters": tool["inputSchema"]},
        }
        for tool in server.tools
    ]
    messages: list[Any] = [{"role": "user", "content": sys.stdin.read()}]
    while True:
        try:
            answer = ask_model(messages, tools, options.model)
        except urllib.error.HTTPError as error:
            report("error", about="login" if error.code == 401 else "model", text=f"HTTP {error.code}")
            return
        except OSError as error:
            report("error", about="model", text=str(error))
            return
        usage = answer["usage"]
        report("turn", model=answer["model"], read=usage["prompt_tokens"], written=usage["completion_tokens"])
        said = answer["choices"][0]["message"]
        messages.append(said)
        if said.get("content"):
            report("says", text=said["content"])
        if not said.get("tool_calls"):
            return
        for call in said["tool_calls"]:
            tool, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
            report("calls", id=call["id"], tool=f"{name}/{tool}", arguments=arguments)
            result = server.ask("tools/call", name=tool, arguments=arguments)
            text = "\n".join(part.get("text", "") for part in result["content"])
            report("gets", id=call["id"], text=text, refused=bool(result.get("isError")))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})


if __name__ == "__main__":
    main()
