"""The `api` toolset: search the documentation of the endpoints and send requests to them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from math import isfinite, log
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from mcp_bench.servers.contracts import ToolCall, ToolResult, ToolSpec
from mcp_bench.servers.saasworld.apps import apps, operations
from mcp_bench.servers.saasworld.authoring.builder import Built, Step
from mcp_bench.servers.saasworld.engine.api_error import STATUS, ApiError, echo, invalid
from mcp_bench.servers.saasworld.engine.executor import execute, tick
from mcp_bench.servers.saasworld.engine.fields import Field, choice, integer, text
from mcp_bench.servers.saasworld.engine.operation import Operation, Parameters, object_schema
from mcp_bench.servers.saasworld.engine.state import State
from mcp_bench.servers.saasworld.engine.validation import check_arguments, check_json
from mcp_bench.servers.saasworld.toolsets import dumps

MAX_HITS = 20
BODY_TYPES = ["object", "string"]
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
"""A number as JSON spells it."""

SEARCH: Final = Parameters(
    (
        text("query", "What you want to do, in a few words.", required=True),
        integer("top_k", "How many endpoints to return, 5 by default.", least=1, most=MAX_HITS),
    )
)
FETCH: Final = Parameters(
    (
        choice("method", "HTTP method.", "GET", "POST", "PUT", "PATCH", "DELETE", required=True),
        text(
            "url",
            "The whole URL, as the documentation gives it, with ids filled in.",
            most=2000,
            required=True,
        ),
        Field("params", "Query parameters: an object, or the same as JSON text.", {"type": BODY_TYPES}),
        Field("body", "Body of the request: an object, or the same as JSON text.", {"type": BODY_TYPES}),
    )
)
SPECS: Final = (
    ToolSpec(
        name="api_search",
        description=(
            "Search the documentation of the HTTP APIs of all services. Returns endpoints with method, "
            "URL and "
            "the schema of their parameters."
        ),
        input_schema=SEARCH.schema,
    ),
    ToolSpec(
        name="api_fetch",
        description=(
            "Send an HTTP request to a service. Credentials are added for the services that are "
            "connected; others answer 401. Returns status and JSON body."
        ),
        input_schema=FETCH.schema,
    ),
)


class Api:
    """`api_search` and `api_fetch` over the same operations as the typed tools."""

    def __init__(self, built: Built) -> None:
        self._apps = built.apps

    def specs(self) -> Sequence[ToolSpec]:
        return SPECS

    def call(self, state: State, name: str, arguments: dict[str, Any]) -> ToolResult:
        tick(state)
        try:
            check_json(arguments)
            if name == "api_search":
                arguments = check_arguments(SEARCH, arguments)
                found = search(arguments["query"], arguments.get("top_k", 5))
                return ToolResult(text=dumps({"endpoints": found}))
            if name != "api_fetch":
                raise ApiError("not_found", f"There is no tool {echo(name)}.")
            arguments = check_arguments(FETCH, arguments)
            result = self._fetch(state, arguments)
        except ApiError as error:
            return ToolResult(text=dumps({"status": STATUS[error.code], "body": error.body()}), is_error=True)
        return ToolResult(text=dumps({"status": 200, "body": result}))

    def play(self, step: Step) -> ToolCall:
        operation, path, rest = step.operation, step.operation.url, dict(step.arguments)
        for name in re.findall(r"{(\w+)}", path):
            path = path.replace(f"{{{name}}}", rest.pop(name))
        arguments: dict[str, Any] = {"method": operation.method, "url": path}
        if rest:
            arguments["params" if operation.method == "GET" else "body"] = rest
        return ToolCall(name="api_fetch", arguments=arguments)

    def _fetch(self, state: State, request: dict[str, Any]) -> dict[str, Any]:
        try:
            url = urlsplit(request["url"])
            query = parse_qsl(url.query, keep_blank_values=True)
        except ValueError:
            raise invalid("url", f"url is not a URL: {echo(request['url'])}.") from None
        app = url.netloc.removesuffix(".example.com")
        if url.scheme != "https" or app not in apps() or url.netloc == app:
            raise ApiError("not_found", f"There is no service at {echo(request['url'])}: use api_search.")
        if app not in self._apps:
            raise ApiError("unauthorized", f"The service {app} is not connected: no credentials.")
        route = match(app, request["method"], url.path)
        given = _merged(
            {
                "path": route.ids,
                "URL": _query(route.operation, query),
                "params": _object(request, "params"),
                "body": _object(request, "body"),
            }
        )
        return execute(state, route.operation, check_arguments(route.operation, given))


class Route(NamedTuple):
    operation: Operation
    ids: dict[str, str]


@cache
def _routes(app: str) -> list[tuple[re.Pattern[str], Operation]]:
    """Return patterns of paths, those without an id first: `/events/busy` is not an event's id."""
    ordered = sorted(apps()[app].operations, key=lambda operation: "{" in operation.path)
    return [
        (re.compile("/v1" + operation.path.replace("{id}", "(?P<id>[^/]+)")), operation)
        for operation in ordered
    ]


def match(app: str, method: str, path: str) -> Route:
    """Return the operation that handles a request.

    Raises:
        ApiError: `not_found`, or `method_not_allowed` if the path accepts other methods.
    """
    others: list[str] = []
    for pattern, operation in _routes(app):
        if found := pattern.fullmatch(path.rstrip("/")):
            if operation.method == method:
                return Route(operation, found.groupdict())
            others.append(operation.method)
    if others:
        raise ApiError("method_not_allowed", f"{path} takes {', '.join(sorted(set(others)))}, not {method}.")
    raise ApiError("not_found", f"There is no endpoint {method} {echo(path)}.")


def _object(request: dict[str, Any], name: str) -> dict[str, Any]:
    """Return `params` or `body` as an object."""
    value = request.get(name) or {}
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise invalid(name, f"{name} is not valid JSON.") from None
        check_json(value)
    if not isinstance(value, dict):
        raise invalid(name, f"{name} must be a JSON object.")
    return value


def _query(operation: Operation, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the query parameters of a URL with their types. Lists can be repeated: `a=1&a=2` or `a=1,2`.

    Raises:
        ApiError: another parameter is repeated.
    """
    found: dict[str, Any] = {}
    for name, given in pairs:
        value = _typed(operation, name, given)
        if name not in found:
            found[name] = value
        elif isinstance(value, list):
            found[name] += value
        else:
            raise ApiError("validation_error", f"The URL gives {echo(name)} more than once: give one value.")
    return found


def _merged(places: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the parameters of all places.

    Raises:
        ApiError: two places have different values for one parameter.
    """
    found: dict[str, Any] = {}
    first: dict[str, str] = {}
    for place, given in places.items():
        for name, value in given.items():
            if found.setdefault(name, value) != value:
                values = f"{echo(found[name])} in the {first[name]} and {echo(value)} in the {place}"
                raise ApiError("validation_error", f"{echo(name)} is {values}: give it once.")
            first.setdefault(name, place)
    return found


def _typed(operation: Operation, name: str, value: str) -> Any:
    """Convert a value from the URL to the parameter's type. Numbers are spelled as in JSON."""
    field = operation.by_name.get(name)
    if field is None:
        return value
    match field.schema["type"]:
        case "integer" | "number" if NUMBER.fullmatch(value) and isfinite(float(value)):
            return json.loads(value)
        case "boolean":
            return {"true": True, "false": False}.get(value.lower(), value)
        case "array":
            return value.split(",")
    return value  # schema validation reports what does not fit


def search(query: str, top_k: int) -> list[dict[str, Any]]:
    """Return the documentation of the best matching endpoints.

    Rare words count more, and words of an endpoint's name count twice.
    """
    wanted = sorted(set(_words(query)))
    scores = {name: sum(words.get(word, 0.0) for word in wanted) for name, words in _index().items()}
    best = sorted((name for name in scores if scores[name] > 0), key=lambda name: (-scores[name], name))
    return [_documentation(operations()[name]) for name in best[:top_k]]


@cache
def _index() -> dict[str, dict[str, float]]:
    """Return the weight of every word of an endpoint, by its operation's name."""
    names = {name: set(_words(name)) for name in operations()}
    texts = {
        name: names[name] | set(_words(f"{operation.about} {apps()[operation.app].about}"))
        for name, operation in operations().items()
    }
    frequency = Counter(word for words in texts.values() for word in words)
    return {
        name: {
            word: log(1 + len(texts) / frequency[word]) * (2 if word in names[name] else 1) for word in words
        }
        for name, words in texts.items()
    }


def _words(text: str) -> list[str]:
    """Return lower-case words without plural endings."""
    return [
        word.removesuffix("s")
        for word in re.findall("[a-z]+", text.lower().replace("_", " "))
        if len(word) > 2
    ]


def _documentation(operation: Operation) -> dict[str, Any]:
    place = "params" if operation.method == "GET" else "body"
    fields = [field for field in operation.parameters if f"{{{field.name}}}" not in operation.path]
    found: dict[str, Any] = {"method": operation.method, "url": operation.url, "description": operation.about}
    return {**found, place: object_schema(fields)} if fields else found
