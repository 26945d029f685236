"""The real agents for parametrised tests, each with its launch options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from mcp_bench.plugins.acp.agent import Acp
from mcp_bench.plugins.claude_code.agent import ClaudeCode
from mcp_bench.plugins.codex.agent import Codex
from mcp_bench.plugins.contracts import Agent
from mcp_bench.plugins.gemini.agent import Gemini
from mcp_bench.plugins.opencode.agent import OpenCode
from mcp_bench.plugins.qwen_code.agent import QwenCode
from tests.support.model_endpoint.endpoint import ModelEndpoint


@dataclass(frozen=True)
class RealAgent:
    plugin: type[Agent]
    url: str
    """The endpoint's attribute with the address for this agent."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options that turn off retries, if the agent has them."""

    def address(self, endpoint: ModelEndpoint) -> str:
        return str(getattr(endpoint, self.url))

    def command_line(self) -> list[str]:
        """Return the options of `mcp-bench record` that name it."""
        pairs = (f"--agent-option={name}={value}" for name, value in self.options.items())
        return ["--agent", self.plugin().name, *pairs]


AT_ONCE = {"max_retries": "0"}
REAL_AGENTS = {
    "codex": RealAgent(Codex, "openai_url", AT_ONCE),
    "claude-code": RealAgent(ClaudeCode, "anthropic_url", AT_ONCE),
    "gemini": RealAgent(Gemini, "gemini_url", AT_ONCE),
    "qwen-code": RealAgent(QwenCode, "openai_url", AT_ONCE),
    "opencode": RealAgent(OpenCode, "openai_url"),
    "acp-codex": RealAgent(Acp, "openai_url", {"command": "codex-acp", **AT_ONCE}),
    "acp-gemini": RealAgent(Acp, "gemini_url", {"command": "gemini --acp", **AT_ONCE}),
    "acp-opencode": RealAgent(Acp, "openai_url", {"command": "opencode acp"}),
}


def agents(*full: str, but: tuple[str, ...] = ()) -> Any:
    """Parametrise a test with the agents; those in `full` are for the full sweep only."""
    return pytest.mark.parametrize(
        "name",
        [
            pytest.param(name, marks=[pytest.mark.full] * (name in full))
            for name in REAL_AGENTS
            if name not in but
        ],
    )
