"""Agents that speak ACP, from npm, in tests/acp_agents and tests/node: how a user would set each of them up.

`make test-full` installs them. Their versions are pinned there.
"""

from __future__ import annotations

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
    """One agent. `{URL}` and `{KEY}` in texts stand for the endpoint's address and key."""

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

    def bin(self) -> Path:
        """Return the folder of its program. If it is not installed, the test fails."""
        program = self.command.split()[0]
        for folder in (FOLDER / "node_modules" / ".bin", MODULES / ".bin"):
            if (folder / program).exists():
                return folder
        pytest.fail(f"{program} is not installed: run `make acp-agents`", pytrace=False)

    def settings(self, user: Path, url: str) -> dict[str, str]:
        """Write its files below the user's home, and return the user's environment."""
        for name, text in self.files.items():
            path = user / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("{URL}", url).replace("{KEY}", KEY))
        path = f"{self.bin()}:{MODULES / '.bin'}:/usr/local/bin:/usr/bin:/bin"
        own = {
            name: value.replace("{URL}", url).replace("{KEY}", KEY) for name, value in self.environ.items()
        }
        return {"PATH": path, "HOME": str(user), **own}


HERE = ("--model", "scripted-1", "--base-url", "{URL}")
KIMI = """
default_model = "s"
[providers.p]
type = "openai"
base_url = "{URL}"
api_key = "{KEY}"
[models.s]
provider = "p"
model = "scripted-1"
max_context_size = 100000
"""
AGENTS = {
    "claude-agent-acp": AcpAgent(
        "claude-agent-acp", {"ANTHROPIC_API_KEY": "{KEY}"}, arguments=HERE, url="anthropic_url"
    ),
    "copilot": AcpAgent("copilot --acp", {"COPILOT_PROVIDER_API_KEY": "{KEY}"}, arguments=HERE),
    "kimi": AcpAgent(
        "kimi acp",
        {
            "KIMI_MODEL_NAME": "scripted-1",
            "KIMI_MODEL_BASE_URL": "{URL}",
            "KIMI_MODEL_API_KEY": "{KEY}",
            "KIMI_MODEL_PROVIDER_TYPE": "openai",
        },
    ),
    "kimi-with-a-file": AcpAgent(
        "kimi acp", files={".kimi-code/config.toml": KIMI}, options=("login=~/.kimi-code/config.toml",)
    ),
    "codex-acp": AcpAgent("codex-acp", {"OPENAI_API_KEY": "{KEY}"}, arguments=HERE),
    "gemini": AcpAgent("gemini --acp", {"GEMINI_API_KEY": "{KEY}"}, arguments=HERE, url="gemini_url"),
    "opencode": AcpAgent("opencode acp", {"OPENAI_API_KEY": "{KEY}"}, arguments=HERE),
    "qwen": AcpAgent("qwen --acp", {"OPENAI_API_KEY": "{KEY}"}, arguments=HERE),
}
