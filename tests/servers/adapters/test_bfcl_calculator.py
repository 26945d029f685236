"""BFCL's calculator, with a stand-in for its package: no call works for hours, in which no episode goes on."""

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.unit

NAME = "mcp_bench.servers.adapters.bfcl_world"
PACKAGE = {
    "bfcl_eval.constants.default_prompts": ("DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC",),
    "bfcl_eval.constants.executable_backend_config": ("CLASS_FILE_PATH_MAPPING", "STATELESS_CLASSES"),
    "bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker": ("response_checker", "state_checker"),
}


class Calculator:
    """Answers at once: what matters is which calls reach it."""

    def power(self, base: Any, exponent: Any) -> dict[str, Any]:
        return {"result": 1}

    def logarithm(self, value: Any, base: Any, precision: Any) -> dict[str, Any]:
        return {"result": 1}

    def square_root(self, number: Any, precision: Any) -> dict[str, Any]:
        return {"result": 1}

    def round_number(self, number: Any, decimal_places: Any = 0) -> dict[str, Any]:
        return {"result": 1}


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The adapter, above a package that has nothing in it."""
    for path, names in PACKAGE.items():
        parts = path.split(".")
        for end in range(1, len(parts) + 1):
            monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(parts[end - 1]))
        vars(sys.modules[path]).update(dict.fromkeys(names))
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    yield importlib.import_module(NAME)
    sys.modules.pop(NAME, None)


@pytest.mark.parametrize(
    ("name", "arguments", "runs"),
    [
        ("power", {"base": 2, "exponent": 1000}, True),
        ("power", {"base": 2, "exponent": 10**9}, False),
        ("power", {"base": 2.5, "exponent": 10**9}, True),
        ("logarithm", {"value": 10, "base": 2, "precision": 50}, True),
        ("logarithm", {"value": 10, "base": 2, "precision": 10**9}, False),
        ("logarithm", {"value": 10, "base": 2, "precision": 1e9}, False),
        ("logarithm", {"value": 10, "base": 2, "precision": "1000000000"}, False),
        ("logarithm", {"value": 10, "base": 2, "precision": "many"}, True),
        ("logarithm", {"value": 10, "base": 2, "precision": None}, True),
        ("square_root", {"number": 2, "precision": 10**9}, False),
        ("round_number", {"number": 2.345, "decimal_places": 2}, True),
        ("round_number", {"number": 12345, "decimal_places": -3}, True),
        ("round_number", {"number": 12345, "decimal_places": -(10**9)}, False),
        ("round_number", {"number": 12345, "decimal_places": 10**9}, True),
    ],
)
def test_no_call_is_endless(adapter: Any, name: str, arguments: dict[str, Any], runs: bool) -> None:
    said = adapter.execute({"MathAPI": Calculator()}, name, arguments)
    assert said == ('{"result": 1}' if runs else f"{adapter.ERROR}the numbers are too large")
