"""Write the manifests of the server for agents and registries: `python -m ...install.manifests`.

They are in `plugins/manifests/` of the repository and of the source distribution. An installed mcp-bench does
not use them: there, `mcp-bench install` writes the entry itself.
"""

from __future__ import annotations

import json
import shutil
import sys
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

from mcp_bench.plugins.install.manifest_texts import COMMAND, COMMAND_SUMMARY, PROJECT, README, SERVER
from mcp_bench.plugins.install.places import SETTINGS, plain

NAME = "bench"
"""Name of the plugin and of its server."""
NAMESPACE = "io.github.mcp-bench"
"""In the MCP registry, which requires proof of ownership: the README has the name, too."""
PACKAGE = "mcp-bench-kit"
CONNECT = ("connect",)
TITLE = "mcp-bench"
SUMMARY = "Benchmark tasks as MCP tools; every call is recorded and the final state graded."
"""The registry allows 100 characters."""
KEYWORDS = ["mcp", "benchmark", "evaluation", "agents"]

MARKETPLACE_SCHEMA = "https://anthropic.com/claude-code/marketplace.schema.json"
REGISTRY_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
MCPB_VERSION = "0.4"


def files() -> dict[str, str]:
    """Return every manifest by its path in the repository."""
    package = metadata(PACKAGE)
    version, licence = package["Version"], package["License-Expression"]
    about = {"name": NAME, "version": version, "description": SUMMARY}
    return {
        ".claude-plugin/marketplace.json": document(marketplace(about)),
        **below("claude-code", claude_code({**about, "license": licence})),
        **below("gemini", gemini(about)),
        **below("mcpb", mcpb({**about, "license": licence}, version)),
        "plugins/manifests/server.json": document(registry(version)),
    }


def below(folder: str, texts: dict[str, str]) -> dict[str, str]:
    return {f"plugins/manifests/{folder}/{path}": text for path, text in texts.items()}


def entry(agent: str) -> dict[str, Any]:
    """Return the server's entry for an agent, which looks for `mcp-bench` on PATH."""
    return SETTINGS[agent].entry(["mcp-bench", *CONNECT], {})


def marketplace(about: dict[str, str]) -> dict[str, Any]:
    """https://code.claude.com/docs/en/plugin-marketplaces"""
    return {
        "$schema": MARKETPLACE_SCHEMA,
        "name": TITLE,
        "owner": {"name": TITLE},
        "metadata": {"description": SUMMARY},
        "plugins": [{**about, "source": "./plugins/manifests/claude-code", "keywords": KEYWORDS}],
    }


def claude_code(about: dict[str, str]) -> dict[str, str]:
    """https://code.claude.com/docs/en/plugins-reference"""
    head = {
        "description": COMMAND_SUMMARY,
        "argument-hint": "[how many]",
        "allowed-tools": f"mcp__plugin_{NAME}_{NAME}",
    }
    matter = "".join(f"{key}: {json.dumps(value)}\n" for key, value in head.items())
    return {
        ".claude-plugin/plugin.json": document({**about, "author": {"name": TITLE}, "keywords": KEYWORDS}),
        ".mcp.json": document({SETTINGS["claude-code"].table: {NAME: entry("claude-code")}}),
        f"commands/{NAME}.md": f"---\n{matter}---\n\n{COMMAND.format(count='$ARGUMENTS')}",
        "README.md": README.format(agent="Claude Code", command=f"/{NAME}:{NAME}"),
    }


def gemini(about: dict[str, str]) -> dict[str, str]:
    """https://geminicli.com/docs/extensions/reference"""
    extension = {**about, SETTINGS["gemini"].table: {NAME: entry("gemini")}}
    prompt = COMMAND.format(count="{{args}}")
    command = f"description = {json.dumps(COMMAND_SUMMARY)}\nprompt = '''\n{prompt}'''\n"
    return {
        "gemini-extension.json": document(extension),
        f"commands/{NAME}.toml": command,
        "README.md": README.format(agent="Gemini CLI", command=f"/{NAME}"),
    }


def mcpb(about: dict[str, str], version: str) -> dict[str, str]:
    """Return a bundle for clients that install with uv, which also installs mcp-bench.

    https://github.com/modelcontextprotocol/mcpb/blob/main/MANIFEST.md
    """
    run = ["run", "--project", "${__dirname}", "${__dirname}/server.py", *CONNECT, "${user_config.benchmark}"]
    benchmark = {
        "type": "string",
        "title": "Benchmark",
        "description": "What to work on: a name that `mcp-bench benchmarks` lists.",
        "required": False,
        "default": "saasworld-api",
    }
    manifest = {
        "manifest_version": MCPB_VERSION,
        **about,
        "display_name": TITLE,
        "author": {"name": TITLE},
        "keywords": KEYWORDS,
        "server": {"type": "uv", "entry_point": "server.py", "mcp_config": plain(["uv", *run], {})},
        "tools": [
            {"name": "next_task", "description": "Start the next task."},
            {"name": "submit_answer", "description": "Hand in the answer."},
            {"name": "finish_task", "description": "End the task."},
        ],
        "tools_generated": True,
        "user_config": {"benchmark": benchmark},
        "compatibility": {"platforms": ["linux"], "runtimes": {"python": ">=3.11"}},
    }
    return {
        "manifest.json": document(manifest),
        "pyproject.toml": PROJECT.format(version=version),
        "server.py": SERVER,
    }


def registry(version: str) -> dict[str, Any]:
    """https://github.com/modelcontextprotocol/registry/tree/main/docs/reference/server-json"""
    benchmark = {
        "type": "positional",
        "valueHint": "benchmark",
        "description": "What to work on: a name that `mcp-bench benchmarks` lists.",
        "default": "saasworld-api",
    }
    home = {
        "name": "MCP_BENCH_HOME",
        "description": "Where recordings go, instead of the user data directory.",
        "format": "filepath",
        "isRequired": False,
    }
    package = {
        "registryType": "pypi",
        "identifier": PACKAGE,
        "version": version,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        "packageArguments": [*({"type": "positional", "value": word} for word in CONNECT), benchmark],
        "environmentVariables": [home],
    }
    return {
        "$schema": REGISTRY_SCHEMA,
        "name": f"{NAMESPACE}/{TITLE}",
        "title": TITLE,
        "description": SUMMARY,
        "version": version,
        "packages": [package],
    }


def document(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Replace the files in the repository whose folder is the first argument."""
    root = Path(sys.argv[1])
    shutil.rmtree(root / "plugins" / "manifests", ignore_errors=True)
    for name, text in files().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
