"""Agents that speak ACP, from npm and PyPI, in tests/acp_agents: how a user would set each of them up.

`make test-full` installs them. Their versions are pinned there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.agents.node_clis import MODULES

FOLDER = ROOT / "tests" / "acp_agents"
KEY = "dummy-key-0123456789"


@dataclass(frozen=True)
class AcpAgent:
    """One agent. `URL` and `KEY` in texts stand for the endpoint's address and key."""

    command: str
    environ: Mapping[str, str] = field(default_factory=dict)
    """The user's variables."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The user's files, by their path below HOME."""
    options: tuple[str, ...] = ()
    """Agent options."""
    arguments: tuple[str, ...] = ()
    """Other options of `mcp-bench record`."""
    url: str = "openai_url"
    """The endpoint's attribute with the address for this agent."""
    python: str = ""
    """Its environment in the folder, if it is a Python package."""

    def bin(self) -> Path:
        """Return the folder of its program. If it is not installed, the test fails."""
        found = FOLDER / self.python / "bin" if self.python else FOLDER / "node_modules" / ".bin"
        if not (found / self.command.split()[0]).exists():
            pytest.fail(f"{self.command.split()[0]} is not installed: run `make acp-agents`", pytrace=False)
        return found

    def settings(self, user: Path, url: str) -> dict[str, str]:
        """Write its files below the user's home, and return the user's environment."""
        for name, text in self.files.items():
            path = user / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("URL", url).replace("KEY", KEY))
        path = f"{self.bin()}:{MODULES / '.bin'}:/usr/local/bin:/usr/bin:/bin"
        own = {name: value.replace("URL", url).replace("KEY", KEY) for name, value in self.environ.items()}
        return {"PATH": path, "HOME": str(user), **own}


HERE = ("--model", "scripted-1", "--base-url", "URL")
OWN_OPENAI = {"OPENAI_API_KEY": "KEY"}
KIMI_CLI = """
default_model = "s"
[providers.p]
type = "openai_legacy"
base_url = "URL"
api_key = "KEY"
[models.s]
provider = "p"
model = "scripted-1"
max_context_size = 100000
"""
VIBE = """
active_model = "s"
[[providers]]
name = "p"
api_base = "URL"
api_key_env_var = "OPENAI_API_KEY"
api_style = "openai"
backend = "generic"
[[models]]
name = "scripted-1"
provider = "p"
alias = "s"
"""
CLINE = {
    ".cline/data/globalState.json": json.dumps(
        {"actModeApiProvider": "openai", "actModeOpenAiModelId": "scripted-1", "openAiBaseUrl": "URL"}
    ),
    ".cline/data/secrets.json": json.dumps({"openAiApiKey": "KEY"}),
}
AGENTS = {
    "claude-agent-acp": AcpAgent(
        "claude-agent-acp", {"ANTHROPIC_API_KEY": "KEY"}, arguments=HERE, url="anthropic_url"
    ),
    "copilot": AcpAgent("copilot --acp", {"COPILOT_PROVIDER_API_KEY": "KEY"}, arguments=HERE),
}
