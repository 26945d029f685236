"""Everything that the author of an agent's plugin imports. See docs/agents/own-agent.md."""

from mcp_bench.plugins.agent_folder import AgentFolder
from mcp_bench.plugins.cli_agent import MCP_CONFIG, CliAgent, find_executable, mcp_servers
from mcp_bench.plugins.contracts import (
    Agent,
    AgentOutput,
    Capabilities,
    Fault,
    Installation,
    Launch,
    LaunchRequest,
    LentLogin,
    McpServer,
    Resumes,
    Transcript,
)
from mcp_bench.plugins.needs import PLACEHOLDER, LoginFile, Needs
from mcp_bench.plugins.output import ODD, Session, Turns, endpoint_fault, overflowed, plus
from mcp_bench.plugins.text_files import json_lines, tail
from mcp_bench.recorder.trajectory import FunctionCall, Message, ToolCall, Usage
from mcp_bench.servers.errors import BenchError, MissingDependencyError, WrongUseError

__all__ = [
    "MCP_CONFIG",
    "ODD",
    "PLACEHOLDER",
    "Agent",
    "AgentFolder",
    "AgentOutput",
    "BenchError",
    "Capabilities",
    "CliAgent",
    "Fault",
    "FunctionCall",
    "Installation",
    "Launch",
    "LaunchRequest",
    "LentLogin",
    "LoginFile",
    "McpServer",
    "Message",
    "MissingDependencyError",
    "Needs",
    "Resumes",
    "Session",
    "ToolCall",
    "Transcript",
    "Turns",
    "Usage",
    "WrongUseError",
    "endpoint_fault",
    "find_executable",
    "json_lines",
    "mcp_servers",
    "overflowed",
    "plus",
    "tail",
]
