"""Home directories in paths that a user wrote: `~`, and that of somebody whom this machine does not know."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_bench.bridge.sandbox.runners.configured import configured
from mcp_bench.recorder.paths import cache_dir
from mcp_bench.servers.adapters.remotes import IMPROVE
from mcp_bench.servers.cybench import BENCHMARK as CYBENCH
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.harbor import BENCHMARK as HARBOR
from mcp_bench.servers.home import home
from mcp_bench.servers.secret import secret_path
from mcp_bench.servers.swe.instance import folder

pytestmark = pytest.mark.unit

NOBODY = "~nobody-has-this-name/tasks"


@pytest.mark.parametrize(
    ("variable", "asked"),
    [
        ("MCP_BENCH_HOME", home),
        ("MCP_BENCH_CACHE", cache_dir),
        ("MCP_BENCH_RUNNERS", configured),
        ("MCP_BENCH_SWE", folder),
        ("MCP_BENCH_CYBENCH", lambda: list(CYBENCH.tasks())),
        ("MCP_BENCH_MLE_SECRET", lambda: secret_path("mle")),
        ("", lambda: HARBOR.at(NOBODY)),
        ("", lambda: CYBENCH.at(NOBODY)),
        ("", lambda: IMPROVE.at(NOBODY)),
    ],
)
def test_a_home_that_is_unknown_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, asked: Callable[[], object]
) -> None:
    if variable:
        monkeypatch.setenv(variable, NOBODY)
    with pytest.raises(WrongUseError, match="~nobody-has-this-name has no home directory on this machine"):
        asked()


def test_a_variable_may_begin_with_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file of variables, unlike a shell, leaves it as it is."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MCP_BENCH_CYBENCH", "~/challenges")
    monkeypatch.setenv("MCP_BENCH_SWE", "~/swe")
    with pytest.raises(WrongUseError, match=f"{tmp_path}/challenges"):
        list(CYBENCH.tasks())
    assert folder() == tmp_path / "swe"
