"""Values that an agent cannot have read: found, and shown by `show`, but never for the oracle."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.show import show
from mcp_bench.recorder.records import RecordedCall
from mcp_bench.recorder.scan.unseen import unseen_values
from tests.support.recorded import TOOL, Episode, planned, record

pytestmark = pytest.mark.unit

PROMPT = "Please pay Ann Ode of Blue Harbor (order PO-2231) by 2026-03-04."


def found(*calls: tuple[dict[str, Any], str]) -> list[tuple[int, str]]:
    recorded = [RecordedCall(tool="t", arguments=given, text=text, started_us=0) for given, text in calls]
    return [(one.call, one.value) for one in unseen_values(PROMPT, [TOOL], recorded)]


def test_an_identifier_that_nothing_contained_is_found() -> None:
    assert found(({"id": "inv_83kd92"}, "")) == [(1, "inv_83kd92")]
    assert found(({"path": "/v1/invoices/inv_83kd92?expand=lines"}, "")) == [(1, "inv_83kd92")]
    assert found(({"to": ["zoe@elsewhere.example"]}, "")) == [(1, "zoe@elsewhere.example")]
    assert found(({"a": {"b": ["x9-77aa"]}}, ""), ({"id": "x9-77aa"}, "")) == [(1, "x9-77aa")]


@pytest.mark.parametrize(
    "value",
    ["PO-2231", "po-2231", "2026-04-01", "2026-04-01T09:30:00Z", "2026-Q3", "09:30", "urgent", "a text of 12 words",
     "ann.ode@blue-harbor.example", "amount", 4711, 12.5, None, True],
)  # fmt: skip
def test_what_was_read_or_is_an_agents_own_is_not_found(value: object) -> None:
    contained = "The domain is blue-harbor.example"
    assert found(({}, contained), ({"value": value}, "")) == []


def test_a_result_explains_later_calls_only() -> None:
    result = json.dumps({"id": "inv_83kd92"})
    assert found(({"query": "Ode"}, result), ({"id": "inv_83kd92"}, "")) == []
    assert found(({"id": "inv_83kd92"}, result), ({"id": "inv_83kd92"}, "")) == [(1, "inv_83kd92")]


@pytest.mark.parametrize(("agent", "values"), [("codex", ["inv_83kd92"]), ("oracle", [])])
def test_show_names_them_but_not_for_the_oracle(
    invoke: Callable[..., Result], agent: str, values: list[str]
) -> None:
    story = Episode(calls=(("transfer", {"id": "inv_83kd92"}, "done"),))
    _, (episode,) = record([(planned(), story)], agent=agent)
    document = json.loads(invoke(show, episode, "--json").stdout)
    assert [one["value"] for one in document["unseen_values"]] == values
    text = "call 1, transfer: inv_83kd92 was in no prompt, schema or earlier result"
    assert (text in invoke(show, episode).output) == bool(values)
    assert document["taint"] == "unknown" and document["evidence_of_taint"] == []
