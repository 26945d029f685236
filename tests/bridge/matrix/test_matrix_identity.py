"""Which changes make another cell of a matrix, and which do not."""

from pathlib import Path
from typing import Any

import pytest

from mcp_bench.bridge.matrix.identity import differences, digest_of, values_of
from mcp_bench.bridge.run.choices import Choices
from mcp_bench.servers.errors import WrongUseError

pytestmark = pytest.mark.unit

PRICES = "opponent-1: {input: 2.5, output: 10}\n"


def priced(path: Path | str, text: str | None = None) -> dict[str, Any]:
    """Return the values of a cell with a file of prices, after a change to it."""
    if text is not None:
        Path(path).write_text(text)
    return values_of(Choices(agent="noop", opponent_model="opponent-1", prices=str(path)), "1.0")


def test_a_cell_without_files_has_the_identity_that_runs_store() -> None:
    """Recorded cells would be paid for again if it changed from one version of mcp-bench to the next."""
    chosen = Choices(
        agent="codex", model="m", limit=3, opponent_model="o", opponent_base_url="http://a:b@127.0.0.1:9/v1"
    )
    assert digest_of(values_of(chosen, "1.0")) == "703c38e26ea6386e"


def test_prices_count_wherever_their_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = priced("prices.yaml", PRICES)
    assert priced(tmp_path / "prices.yaml") == found
    assert priced(tmp_path / "copy.yaml", f"# in US dollars\n{PRICES}") == found
    assert priced("prices.yaml", f"{PRICES}another: {{input: 1, output: 1}}\n") == found
    changed = priced("prices.yaml", PRICES.replace("10", "11"))
    assert differences(found, changed).startswith("prices ")
    assert digest_of(changed) != digest_of(found)


def test_prices_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(WrongUseError, match=r"prices\.yaml:1: opponent-1"):
        priced(tmp_path / "prices.yaml", "opponent-1: 3")
