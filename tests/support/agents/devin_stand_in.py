"""A stand-in for Devin's CLI, which cannot be run without an account: NOT the real program.

It has the documented interface (`--print --prompt-file --config --export
--permission-mode --model --version`), connects to the MCP server in its configuration, makes one call if a
rule allows it, and writes the session in the Agent Trajectory Interchange Format.
"""

import argparse
import fnmatch
import json
import sys
from pathlib import Path

import anyio

from mcp_bench.clients.config import read_config
from mcp_bench.clients.connection import connect

CALL = ("add", {"a": 1, "b": 2})


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="devin")
    parser.add_argument("--version", action="version", version="devin 0.0.0 (stand-in)")
    parser.add_argument("--print", "-p", action="store_true", required=True)
    parser.add_argument("--permission-mode", choices=["normal", "dangerous", "bypass"], default="normal")
    for name in ("--prompt-file", "--config", "--export"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--model", default="stand-in-1")
    return parser.parse_args()


async def work(options: argparse.Namespace) -> dict:
    (name,) = json.loads(options.config.read_text())["mcpServers"]
    rules = json.loads(options.config.read_text())["permissions"]
    full_name = f"mcp__{name}__{CALL[0]}"
    allowed = any(fnmatch.fnmatch(full_name, rule) for rule in rules["allow"])
    async with connect(read_config(options.config), 60) as connection:
        outcome = await connection.call(*CALL) if allowed else None
    call = {"tool_call_id": "c1", "function_name": full_name, "arguments": CALL[1]}
    result = {"source_call_id": "c1", "content": outcome.text if outcome else "not allowed"}
    metrics = {"prompt_tokens": 100, "completion_tokens": 10, "cached_tokens": 40, "cost_usd": 0.01}
    steps = [
        {"source": "user", "message": options.prompt_file.read_text()},
        {
            "source": "agent",
            "message": "Adding.",
            "reasoning_content": "A sum is needed.",
            "tool_calls": [call],
            "observation": {"results": [result]},
            "metrics": metrics,
        },
        {"source": "agent", "message": f"It is {result['content']}.", "metrics": metrics},
    ]
    return {
        "schema_version": "ATIF-v1.7",
        "session_id": "stand-in",
        "agent": {"name": "devin", "version": "0.0.0", "model_name": options.model},
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "final_metrics": {
            "total_prompt_tokens": 200,
            "total_completion_tokens": 20,
            "total_cached_tokens": 80,
            "total_cost_usd": 0.02,
            "total_steps": 3,
        },
    }


def main() -> None:
    options = arguments()
    if not (Path.home() / ".local/share/devin/credentials.toml").is_file():
        sys.exit("You are not logged in: run `devin auth login`")
    trajectory = anyio.run(work, options)
    options.export.write_text(json.dumps(trajectory))
    print(trajectory["steps"][-1]["message"])


if __name__ == "__main__":
    main()
