"""Pipes, devices and links in place of transcripts are not waited for and not followed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mcp_bench.plugins.acp.agent import PLAN, Acp
from mcp_bench.plugins.claude_code.agent import ClaudeCode
from mcp_bench.plugins.codex.agent import Codex
from mcp_bench.plugins.contracts import Agent, AgentOutput, McpServer
from mcp_bench.plugins.devin.agent import Devin
from mcp_bench.plugins.gemini.agent import Gemini
from mcp_bench.plugins.opencode.agent import OpenCode
from mcp_bench.plugins.qwen_code.agent import QwenCode

pytestmark = pytest.mark.system

SESSION = "01234567-89ab-cdef-0123-456789abcdef"
WORD = "stolen-sentinel"
SEEN = (
    f'{{"type":"thread.started","thread_id":"{SESSION}"}}',
    f'{{"type":"system","subtype":"init","session_id":"{SESSION}","model":"m","mcp_servers":[]}}',
    f'{{"type":"init","session_id":"{SESSION}","model":"m"}}',
)
FOUND = (
    f'{{"type":"assistant","model":"{WORD}","message":{{"id":"{WORD}","model":"{WORD}","parts":[],'
    f'"usage":{{}}}},"command":["{WORD}"],"payload":{{"model":"{WORD}"}}}}\n'
    f'{{"type":"turn_context","payload":{{"model":"{WORD}"}}}}\n'
    f'{{"type":"gemini","id":"1","model":"{WORD}","content":"{WORD}"}}\n'
)
PLACES: dict[str, tuple[type, str]] = {
    "acp": (Acp, PLAN),
    "claude-code": (ClaudeCode, f".claude/projects/here/{SESSION}.jsonl"),
    "codex": (Codex, f".codex/sessions/2026/01/01/rollout-x-{SESSION}.jsonl"),
    "devin": (Devin, "trajectory.json"),
    "gemini": (Gemini, f".gemini/tmp/x/chats/session-1-{SESSION[:8]}.jsonl"),
    "opencode": (OpenCode, "fault"),
    "qwen-code": (QwenCode, f".qwen/projects/x/chats/{SESSION}.jsonl"),
}


def pipe(path: Path, secret: Path) -> None:
    os.mkfifo(path)


def link(path: Path, secret: Path) -> None:
    path.symlink_to(secret)


def device(path: Path, secret: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path, secret: Path) -> None:
    path.mkdir()


def link_above(path: Path, secret: Path) -> None:
    """Put the file itself in place, below a folder that is a link."""
    real = secret.parent / "real"
    path.parent.rename(real)
    (real / path.name).write_bytes(secret.read_bytes())
    if path.parent != secret.parent / "home":  # else the home itself moved
        path.parent.symlink_to(real)
    else:
        path.parent.mkdir()
        path.symlink_to(real / path.name)


def hard_link(path: Path, secret: Path) -> None:
    os.link(secret, path)


@contextmanager
def bounded() -> Iterator[None]:
    """Fail if reading blocks."""

    def fail(*_: object) -> None:
        pytest.fail("it blocks")  # an OSError would look like a missing file

    signal.signal(signal.SIGALRM, fail)
    signal.alarm(20)
    try:
        yield
    finally:
        signal.alarm(0)


@pytest.mark.parametrize("trap", [pipe, link, link_above, hard_link, device, folder])
@pytest.mark.parametrize("name", PLACES)
def test_a_trap_reads_like_a_missing_file(
    tmp_path: Path, name: str, trap: Callable[[Path, Path], None]
) -> None:
    kind, place = PLACES[name]
    agent: Agent = kind()
    home, secret = tmp_path / "home", tmp_path / "secret"
    secret.write_text(FOUND)
    (home / place).parent.mkdir(parents=True)
    trap(home / place, secret)
    stdout, stderr = tmp_path / "stdout", tmp_path / "stderr"
    stdout.write_text("\n".join(SEEN) + "\n")
    stderr.touch()
    output = AgentOutput(stdout, stderr, home, tmp_path, 0, {"HOME": str(home)})
    with bounded():
        transcript = agent.read(output, McpServer("bench", ("x",), ("write",)))
    assert WORD not in transcript.model_dump_json() and transcript.usage is None


@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini", "qwen-code"])
def test_without_a_trap_the_same_file_is_read(tmp_path: Path, name: str) -> None:
    kind, place = PLACES[name]
    home, stdout = tmp_path / "home", tmp_path / "stdout"
    (home / place).parent.mkdir(parents=True)
    (home / place).write_text(FOUND)
    stdout.write_text("\n".join(SEEN) + "\n")
    output = AgentOutput(stdout, stdout, home, tmp_path, 0, {"HOME": str(home)})
    transcript = kind().read(output, McpServer("bench", ("x",), ("write",)))
    assert WORD in transcript.model_dump_json() or transcript.usage is not None
