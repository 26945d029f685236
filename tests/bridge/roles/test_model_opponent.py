"""A model plays the opponent of a board game in a recorded run."""

from collections.abc import Iterator

import pytest

from mcp_bench.servers.adapters.remotes import TEXTARENA
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.requirements import needs

pytestmark = [
    pytest.mark.system,
    needs("textarena", TEXTARENA.missing() is None, str(TEXTARENA.missing())),
]

KEY = "sk-of-the-opponent-1"
WORK = """
server = Server()
server.connect()
print(server.call("move", action="[col 3]"))
"""


@pytest.fixture
def endpoint() -> Iterator[ModelEndpoint]:
    with ModelEndpoint([], api_key=KEY) as found:
        yield found


def test_an_opponent_without_legal_moves_loses(bench, endpoint, script) -> None:
    """The scripted model names no move, so the game ends by its own rules."""
    task = ("record", "--agent", "script", "--benchmark", "textarena", "--task", "connect-four-versus.2")
    refused = bench.run(*task, "--agent-option", script(WORK), code=2)
    assert "name it with --opponent-model NAME" in refused.stderr
    bench.environ |= {"MCP_BENCH_OPPONENT_API_KEY": KEY}
    model = ("--opponent-model", "opponent-1", "--opponent-base-url", endpoint.openai_url)
    bench.run(*task, "--agent-option", script(WORK), *model)
    assert [(row["partial"], row["strict"]) for row in bench.grades()] == [(1.0, 1)]
    asked = bench.rows("select role, model, error from asked", database="grades.db")
    assert {(row["role"], row["model"], row["error"]) for row in asked} == {("opponent", "opponent-1", None)}
    (scored,) = bench.rows("select certain from scores", database="grades.db")
    assert scored["certain"] == 0
