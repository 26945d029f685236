"""A login file of the user in a sealed home: the real agents use the original.

The tokens are made up. A program in front of each agent points it at the scripted endpoint, as no option of
`record` would (an endpoint of one's own never gets a login file), and looks for copies of the token.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from mcp_bench.servers.saasworld import BENCHMARK
from tests.support.agents.node_clis import node_environ
from tests.support.http.token_endpoint import TokenEndpoint, write_login
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import script_from_reference

pytestmark = pytest.mark.system

TASK = "simple-candidate-stage.1.train.0"
CLAUDE_TOKEN = "made-up-claude-token-0123456789"
CLAUDE_LOGIN = {
    "claudeAiOauth": {
        "accessToken": CLAUDE_TOKEN,
        "refreshToken": "made-up-refresh-0123456789",
        "expiresAt": 9_999_999_999_000,
        "scopes": ["user:inference", "user:profile"],
        "subscriptionType": "max",
    }
}
OPENCODE_TOKEN = "made-up-opencode-token-0123456789"

FRONT = """#!/bin/sh
case "$1" in *version*) exec {program} "$@";; esac
{before}
{program} {first} "$@"
code=$?
grep -rlF -e '{token}' "$HOME/.." > {found}
exit $code
"""
Record = Callable[..., CompletedProcess[str]]


@pytest.fixture
def user(tmp_path: Path) -> Path:
    home = tmp_path / "user"
    home.mkdir()
    return home


@pytest.fixture
def serve() -> Iterator[Callable[[str], ModelEndpoint]]:
    """Start an endpoint that accepts only one token."""
    found = BENCHMARK.reference(TASK)
    assert found is not None
    script = script_from_reference(BENCHMARK.task(TASK).prompt, found.model_dump())
    running: list[ModelEndpoint] = []

    def start(token: str) -> ModelEndpoint:
        running.append(ModelEndpoint([script], api_key=token).__enter__())
        return running[-1]

    yield start
    for one in running:
        one.__exit__(None, None, None)


@pytest.fixture
def record(bench, user: Path, tmp_path: Path) -> Record:
    """Record the task with an agent, through a wrapper that adds environment variables and arguments."""

    def run(
        agent: str, program: str, token: str, *more: str, before: str = "", first: str = "", code: int = 0
    ) -> CompletedProcess[str]:
        path = node_environ(user)["PATH"]
        folder = tmp_path / "bin"
        folder.mkdir()
        real = shutil.which(program, path=path)
        text = FRONT.format(program=real, token=token, before=before, first=first, found=tmp_path / "found")
        (folder / program).write_text(text)
        (folder / program).chmod(0o755)
        bench.environ.update(HOME=str(user), PATH=f"{folder}:{path}")
        return bench.run("record", "--agent", agent, "--task", TASK, "--timeout", "120", *more, code=code)

    return run


def codex_at(endpoint: ModelEndpoint) -> str:
    """Return arguments that make Codex send a ChatGPT login to another endpoint."""
    provider = (
        f'{{name="loop",base_url="{endpoint.openai_url}",wire_api="responses",requires_openai_auth=true}}'
    )
    pairs = {
        "model_provider": '"loop"',
        "model_providers.loop": provider,
        "chatgpt_base_url": f'"{endpoint.anthropic_url}/backend-api/"',
        "features.enable_request_compression": "false",
    }
    return " ".join(f"-c '{key}={value}'" for key, value in pairs.items())


def nothing_kept(bench, tmp_path: Path, *tokens: str) -> None:
    """Check that no token is in the episode's folder or in the recording."""
    assert (tmp_path / "found").read_text() == ""
    files = [path for path in bench.home.rglob("*") if path.is_file()]
    assert files
    for token in tokens:
        assert not [path for path in files if token.encode() in path.read_bytes()]


def test_codex_uses_the_original_file(bench, record: Record, user: Path, tmp_path: Path, serve) -> None:
    file = user / ".codex" / "auth.json"
    token = write_login(file, seconds=3600)
    (user / ".codex" / "AGENTS.md").write_text("The user keeps a teal otter.")
    before, content = file.stat(), file.read_bytes()
    endpoint = serve(token)
    done = record("codex", "codex", token, "--repeat", "2", "--jobs", "2", first=codex_at(endpoint))
    assert [grade["partial"] for grade in bench.grades()] == [1.0, 1.0]
    assert endpoint.answered
    assert (file.stat().st_ino, file.read_bytes()) == (before.st_ino, content)
    assert "teal otter" not in json.dumps([request.body for request in endpoint.requests])
    nothing_kept(bench, tmp_path, token, "refresh-first")
    assert (
        f"Running one episode at a time despite --jobs: the login in {file} is for one episode at a time"
        in done.stderr
    )
    spans = bench.rows("select started_us, ended_us from episodes order by started_us")
    assert spans[0]["ended_us"] <= spans[1]["started_us"]


def test_a_token_renewed_by_codex_reaches_the_user(
    bench, record: Record, user: Path, tmp_path: Path, serve
) -> None:
    file = user / ".codex" / "auth.json"
    old = write_login(file, seconds=-60)
    with TokenEndpoint() as tokens:
        endpoint = serve(tokens.access)
        before = f"export CODEX_REFRESH_TOKEN_URL_OVERRIDE={tokens.url}"
        record("codex", "codex", tokens.access, before=before, first=codex_at(endpoint))
    assert bench.grades()[0]["partial"] == 1.0
    assert tokens.given == ["refresh-first"]
    assert json.loads(file.read_text())["tokens"]["refresh_token"] == "refresh-second"
    assert not file.is_symlink()
    nothing_kept(bench, tmp_path, old, tokens.access, "refresh-second")


def test_claude_code_uses_the_original_file(bench, record: Record, user: Path, tmp_path: Path, serve) -> None:
    file = user / ".claude" / ".credentials.json"
    file.parent.mkdir()
    file.write_text(json.dumps(CLAUDE_LOGIN))
    (user / ".claude" / "CLAUDE.md").write_text("The user keeps a teal otter.")
    before = file.stat()
    endpoint = serve(CLAUDE_TOKEN)
    done = record(
        "claude-code", "claude", CLAUDE_TOKEN, "--repeat", "2", "--jobs", "2",
        before=f"export ANTHROPIC_BASE_URL={endpoint.anthropic_url}",
    )  # fmt: skip
    assert [grade["partial"] for grade in bench.grades()] == [1.0, 1.0]
    assert endpoint.answered
    assert (file.stat().st_ino, json.loads(file.read_text())) == (before.st_ino, CLAUDE_LOGIN)
    assert "teal otter" not in json.dumps([request.body for request in endpoint.requests])
    assert sorted(path.name for path in file.parent.iterdir()) == [".credentials.json", "CLAUDE.md"]
    nothing_kept(bench, tmp_path, CLAUDE_TOKEN, "made-up-refresh")
    assert "--jobs is 1" not in done.stderr


@pytest.mark.full  # as Claude Code: the file is lent in the same way
def test_opencode_uses_the_original_file(bench, record: Record, user: Path, tmp_path: Path, serve) -> None:
    file = user / ".local" / "share" / "opencode" / "auth.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"loop": {"type": "api", "key": OPENCODE_TOKEN}}))
    before = file.stat()
    endpoint = serve(OPENCODE_TOKEN)
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": endpoint.openai_url},
        "models": {"scripted-1": {"tool_call": True}},
    }
    config = json.dumps({"provider": {"loop": provider}})
    record(
        "opencode", "opencode", OPENCODE_TOKEN, "--model", "loop/scripted-1",
        before=f"export OPENCODE_CONFIG_CONTENT='{config}'",
    )  # fmt: skip
    assert bench.grades()[0]["partial"] == 1.0
    assert file.stat().st_ino == before.st_ino
    assert [path.name for path in file.parent.iterdir()] == ["auth.json"]
    nothing_kept(bench, tmp_path, OPENCODE_TOKEN)


@pytest.mark.parametrize(
    ("agent", "ways"),
    [
        ("codex", ("set CODEX_API_KEY or OPENAI_API_KEY", "`codex login`", ".codex/auth.json")),
        ("claude-code", ("set ANTHROPIC_API_KEY", "`claude auth login`", ".claude/.credentials.json")),
        ("gemini", ("set GEMINI_API_KEY", "run `gemini`", ".gemini/oauth_creds.json")),
        ("opencode", ("OPENAI_API_KEY", "`opencode auth login`", ".local/share/opencode/auth.json")),
        ("qwen-code", ("set OPENAI_API_KEY", "--home native")),
    ],
)
def test_a_missing_login_says_how_to_get_one(bench, user: Path, agent: str, ways: tuple[str, ...]) -> None:
    bench.environ.update(HOME=str(user), PATH=node_environ(user)["PATH"])
    done = bench.run("record", "--agent", agent, "--task", TASK, code=1)
    assert "has no login" in done.stderr
    for way in ways:
        assert way in done.stderr
    assert not (bench.home / "runs").exists()
