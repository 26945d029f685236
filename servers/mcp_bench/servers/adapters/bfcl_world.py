"""One conversation of BFCL v4 multi-turn. The functions and the checks are `bfcl-eval`'s own.

A turn passes as it does there: after it, the state is that of the reference, and the results of the reference
are among the results so far. Only a worker imports this module.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
from contextlib import suppress
from copy import deepcopy
from typing import Any

from bfcl_eval.constants.default_prompts import DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC
from bfcl_eval.constants.executable_backend_config import CLASS_FILE_PATH_MAPPING, STATELESS_CLASSES
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import response_checker, state_checker

from mcp_bench.servers.contracts import JSON, ToolCall, ToolResult, ToolSpec
from mcp_bench.servers.grading import AssertionResult
from mcp_bench.servers.worlds.simple import SimpleWorld

VERSION = "2026.3.23"
"""Of bfcl-eval."""
JSON_TYPES = {"dict": "object", "float": "number", "tuple": "array"}
"""Where BFCL's names of types are not those of JSON Schema."""
ERROR = "Error during execution: "
"""How BFCL reports a call that raised."""
MAX_DETAIL = 500
MOST_BITS, MOST_DIGITS = 100_000, 1_000
"""Of a power, and of a root or logarithm; also of the zeros that a number is rounded to."""


def schema(node: Any) -> Any:
    """Return a JSON Schema for a schema in BFCL's form."""
    if not isinstance(node, dict):
        return node
    return {
        key: JSON_TYPES.get(value, value) if key == "type" and isinstance(value, str) else schema(value)
        for key, value in node.items()
    }


def tool(doc: dict[str, Any]) -> ToolSpec:
    """Return a function's documentation as a tool. BFCL runs a call whatever its arguments are."""
    parameters = schema(doc["parameters"])
    return ToolSpec(name=doc["name"], description=doc["description"], input_schema=parameters, checked=False)


def execute(apis: dict[str, Any], name: str, arguments: dict[str, Any]) -> str:
    """Make a call, and return its result as BFCL's `execute_multi_turn_func_call` words it."""
    if is_endless(name, arguments):
        return f"{ERROR}the numbers are too large"
    try:
        result = method(apis, name)(**arguments)
    except Exception as error:
        return f"{ERROR}{error}"
    if isinstance(result, dict):
        with suppress(TypeError, ValueError):
            return json.dumps(result)
    return str(result)


def is_endless(name: str, arguments: dict[str, Any]) -> bool:
    """Return whether BFCL's calculator would work for hours, in which no other episode goes on."""
    match name:
        case "power":
            base, exponent = arguments.get("base"), arguments.get("exponent")
            if not (isinstance(base, int) and isinstance(exponent, int)):
                return False
            return abs(exponent) * abs(base).bit_length() > MOST_BITS
        case "logarithm" | "square_root":
            return _whole(arguments.get("precision")) > MOST_DIGITS
        case "round_number":
            return -_whole(arguments.get("decimal_places")) > MOST_DIGITS
    return False


def _whole(number: Any) -> int:
    """Return what mpmath, which takes 9.0 and "9", too, reads as an integer; 0: it refuses it."""
    try:
        return int(number)
    except (TypeError, ValueError, OverflowError):
        return 0


def method(apis: dict[str, Any], name: str) -> Any:
    return next(getattr(api, name) for api in apis.values() if hasattr(api, name))


def parse(call: str, apis: dict[str, Any]) -> ToolCall:
    """Return a call that BFCL writes as Python."""
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)  # noqa: S101 - BFCL's own data
    names = inspect.signature(method(apis, node.func.id)).parameters
    values = dict(zip(names, map(ast.literal_eval, node.args), strict=False))
    values |= {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
    return ToolCall(name=node.func.id, arguments=values)


class BfclWorld(SimpleWorld):
    """One conversation. The reference's calls run beside the agent's, on APIs of their own."""

    changes_tools = True
    grader_version = VERSION

    def __init__(
        self, entry: dict[str, Any], truth: list[list[str]], tools_of: dict[str, list[ToolSpec]]
    ) -> None:
        self._entry, self._truth = entry, truth
        self._missed: dict[str, list[str]] = entry.get("missed_function", {})
        self._tools = {one.name: one for name in entry["involved_classes"] for one in tools_of[name]}
        self._apis, self._wanted = self.new_apis(), self.new_apis()
        self._results: list[str] = []
        self._called = False
        self._verdicts: list[AssertionResult] = []
        self.turn = 0

    def new_apis(self) -> dict[str, Any]:
        found = {}
        for name in self._entry["involved_classes"]:
            api = getattr(importlib.import_module(CLASS_FILE_PATH_MAPPING[name]), name)()
            if name not in STATELESS_CLASSES:
                scenario = deepcopy(self._entry["initial_config"].get(name, {}))
                api._load_scenario(scenario, long_context="long_context" in self._entry["id"])
            found[name] = api
        return found

    def tools(self) -> list[ToolSpec]:
        later = {name for turn, names in self._missed.items() if int(turn) > self.turn for name in names}
        return [one for name, one in self._tools.items() if name not in later]

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        text = execute(self._apis, name, arguments)
        self._results.append(text)
        self._called = True
        return ToolResult(text=text, is_error=text.startswith(ERROR))

    async def reply(self, said: str) -> str | None:
        """Judge the turn that ends, and return the user's next message."""
        self._end_turn()
        if self.turn >= len(self._truth):
            return None
        message = self._entry["question"][self.turn]
        return str(message[0]["content"] if message else DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC)

    def _end_turn(self) -> None:
        if self.turn >= len(self._truth):
            return
        calls = [parse(call, self._wanted) for call in self._truth[self.turn]]
        expected = [execute(self._wanted, call.name, call.arguments) for call in calls]
        if expected:  # BFCL does not judge a turn in which nothing can be done
            state = state_checker(self._apis, self._wanted)
            seen = response_checker(self._results, expected, self.turn)
            problems = [verdict.get("error_message", "") for verdict in (state, seen)]
            why = "; ".join(filter(None, ["" if self._called else "no call was made", *problems]))
            verdict = AssertionResult(name=f"turn {self.turn + 1}", passed=not why, detail=why[:MAX_DETAIL])
            self._verdicts.append(verdict)
        self.turn, self._called = self.turn + 1, False

    def checks(self, answer: str) -> list[AssertionResult]:
        while self.turn < len(self._truth):  # turns that the agent did not reach
            self._end_turn()
        return self._verdicts

    async def assertions_now(self) -> None:
        """Return nothing: a turn is judged when it is over."""

    async def snapshot(self) -> JSON:
        """Return the turn, and the public attributes of each API: what BFCL compares."""
        state = {
            name: {k: v for k, v in vars(api).items() if k[0] != "_"} for name, api in self._apis.items()
        }
        return {"turn": self.turn, "state": json.loads(json.dumps(state, default=str))}
