"""The interface for authors of task families: records, the request and the reference solution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mcp_bench.servers.errors import suggestion
from mcp_bench.servers.saasworld.apps import apps, operations, resources
from mcp_bench.servers.saasworld.authoring.wording import Also, Flexible, literal
from mcp_bench.servers.saasworld.engine.api_error import ApiError
from mcp_bench.servers.saasworld.engine.executor import execute, tick
from mcp_bench.servers.saasworld.engine.operation import Operation
from mcp_bench.servers.saasworld.engine.seeder import FamilyError, Seeder
from mcp_bench.servers.saasworld.engine.state import Record, State, Tables
from mcp_bench.servers.saasworld.grading import effects
from mcp_bench.servers.saasworld.grading.checks import Assertion
from mcp_bench.servers.saasworld.grading.matchers import Matcher, Where
from mcp_bench.servers.saasworld.grading.view import differing
from mcp_bench.servers.saasworld.short_tools import Offer, four_tools

MIN_PHRASINGS = 3
NOTHING_ELSE = Also(())
HEADED_FROM = 3
"""From this level on, the request names the user and today's date."""


@dataclass(frozen=True)
class Step:
    """One call of the reference solution."""

    operation: Operation
    arguments: dict[str, Any]
    writes: bool


@dataclass(frozen=True)
class Built:
    """A complete task, with everything that a world needs."""

    prompt: str
    tables: Tables
    now: int
    seed: int
    settings: dict[str, Any]
    counters: dict[str, int]
    steps: tuple[Step, ...]
    assertions: tuple[Assertion, ...]
    apps: tuple[str, ...]
    """Apps that the agent can reach."""
    offers: tuple[Offer, ...] | None
    """The four short tools of level 1; None for all tools of the apps."""

    def start(self) -> State:
        """Return a fresh state. Worlds of the same task share unchanged records."""
        return State(
            self.tables, now=self.now, seed=self.seed, settings=self.settings, counters=self.counters
        )


class Builder(Seeder):
    """Builds one task.

    Call in this order: records (`add`, `background`, traps), then `request`, then the reference solution
    (`look`, `do`). The changes made by `do` become the objectives. Guardrails against all other changes are
    added automatically.
    """

    def __init__(self, seed: int, half: int, now: int, level: int) -> None:
        super().__init__(seed, half, now, resources())
        self.level = level
        self._seed = seed
        self._prompt = ""
        self._steps: list[Step] = []
        self._wanted: dict[tuple[str, str], dict[str, Matcher]] = {}
        self._allowed: dict[tuple[str, str], set[str]] = {}
        self._optional: list[tuple[str, Where]] = []
        self._extra: list[Assertion] = []
        self._start: State | None = None

    def add(self, collection: str, **values: Any) -> Record:
        if self._start is not None:
            raise FamilyError("add() after the first look() or do(): make all records before")
        return super().add(collection, **values)

    def background(self, app: str, count: int) -> None:
        """Add about `count` ordinary records to an app, with other people and companies."""
        if app not in apps():
            raise FamilyError(f"there is no app {app!r} (there are: {', '.join(apps())})")
        apps()[app].populate(self, count)

    def request(self, *phrasings: str, **values: Any) -> None:
        """Set the request: one of the phrasings is drawn at random and its `{name}` fields are filled in."""
        if len(phrasings) < MIN_PHRASINGS:
            raise FamilyError(f"request() needs {MIN_PHRASINGS} phrasings or more, not {len(phrasings)}")
        self._prompt = self.pick(phrasings).format(**values)

    def read_only(self, *names: str) -> None:
        """Make these apps read-only for the user: writes are refused with `permission_denied`."""
        self.settings["read_only"] = [*self.settings.get("read_only", ()), *names]

    def limit_calls(self, app: str, per_minute: int) -> None:
        """Limit an app's calls per minute of the world's time, in which an agent makes 12 calls."""
        self.settings["calls_per_minute"] = {**self.settings.get("calls_per_minute", {}), app: per_minute}

    def look(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Run a reading call of the reference solution and return its result."""
        changed, result = self._play(tool, arguments)
        if changed:
            raise FamilyError(f"look({tool!r}) changed something: use do()")
        return result

    def do(self, tool: str, also: Also = NOTHING_ELSE, /, **arguments: Any) -> dict[str, Any]:
        """Run a changing call of the reference solution. Its changes become objectives.

        Args:
            also: `also("note", ...)`: fields of the changed records that a solution can set or leave.
            arguments: plain values, which a solution must match, or `says`, `free`, `one_of`, `within`.
                Free text (fields that the app declares as prose) needs one of these wrappers.

        Raises:
            FamilyError: the call is refused or changes nothing, or prose is not wrapped.
        """
        operation = self._operation(tool)
        for name, value in arguments.items():
            field = operation.by_name.get(name)
            if field is not None and field.prose and not isinstance(value, Flexible):
                raise FamilyError(f"{tool}: {name} is prose: wrap it in says(...) or free(...)")
        changed, result = self._play(tool, arguments)
        if not changed:
            raise FamilyError(f"do({tool!r}) changed nothing: use look(), or leave it out")
        flexible = _flexible(arguments)
        unused = {name for name, matcher in flexible.items() if "mentions" in matcher}
        for collection, record_id, fields in changed:
            wanted = self._wanted.setdefault((collection, record_id), {})
            for name in fields:
                wanted.pop(name, None)
                if name in flexible:
                    wanted[name] = flexible[name]
                    unused.discard(name)
            self._allowed.setdefault((collection, record_id), set()).update(also.fields)
            wanted |= {name: {"any": True} for name in also.fields}
        if unused:
            raise FamilyError(
                f"{tool}: {', '.join(unused)} ends up in no record, so it cannot be checked: free(...)"
            )
        return result

    def allow(self, record: Record, collection: str, *fields: str) -> None:
        """Allow a solution to change these fields of an existing record, without requiring it."""
        self._allowed.setdefault((collection, record["id"]), set()).update(fields)

    def optional(self, collection: str, **where: Any) -> None:
        """Allow a solution to create one such record, without requiring it.

        Values can be wrapped: `says`, `one_of`, ...
        """
        flexible = {n: v.matcher if isinstance(v, Flexible) else {"equals": v} for n, v in where.items()}
        self._optional.append((collection, flexible))

    def expect(self, name: str, check: str, **arguments: Any) -> None:
        """Add an assertion explicitly; see `checks.CHECKS`. Rarely needed."""
        self._extra.append({"check": check, "name": name, **arguments})

    def finish(self) -> Built:
        """Return the task.

        Raises:
            FamilyError: the family made no request or no changing step.
        """
        if not self._prompt:
            raise FamilyError("the family made no request()")
        if self._start is None or not any(step.writes for step in self._steps):
            raise FamilyError("the reference solution has no do(): every task must ask for a change")
        start = self._start
        reach = {name.partition(".")[0] for name in start.tables} | {s.operation.app for s in self._steps}
        names = tuple(name for name in apps() if name in reach)
        collections = [resource.collection for name in names for resource in apps()[name].resources]
        found = effects.assertions(self.state, collections, self._wanted, self._existing(), self._optional)
        prompt = self._prompt if self.level < HEADED_FROM else f"{self._heading()}\n\n{self._prompt}"
        calls = [(step.operation, step.arguments) for step in self._steps]
        return Built(
            prompt=prompt,
            tables=start.tables,
            now=start.now,
            seed=start.seed,
            settings=self.settings,
            counters=start.counters,
            steps=tuple(self._steps),
            assertions=(*found, *self._extra),
            apps=names,
            offers=four_tools(self, prompt, calls, names) if self.level == 1 else None,
        )

    def _existing(self) -> dict[tuple[str, str], set[str]]:
        """Return the permissions for records of the initial state."""
        start = self._start or self.state
        return {place: names for place, names in self._allowed.items() if names and start.find(*place)}

    def _heading(self) -> str:
        me, today = self.me, self.today
        who = f"You work for {me.name} ({me.email}) at {self.org.name}."
        return f"{who} Today is {today:%A}, {today.isoformat()}."

    def _operation(self, tool: str) -> Operation:
        if tool not in operations():
            raise FamilyError(f"there is no tool {tool!r}{suggestion(tool, operations())}")
        return operations()[tool]

    def _play(
        self, tool: str, given: dict[str, Any]
    ) -> tuple[list[tuple[str, str, set[str]]], dict[str, Any]]:
        """Run a call; return what it changed (collection, id, fields) and its result."""
        operation, arguments = self._operation(tool), literal(given)
        if unknown := arguments.keys() - operation.by_name.keys():
            known = ", ".join(operation.by_name)
            raise FamilyError(f"{tool} has no parameter {', '.join(unknown)} (it has: {known})")
        self._freeze()
        state, before = self.state, {c[:2]: c.after for c in self.state.changes()} if operation.writes else {}
        tick(state)
        try:
            result = execute(state, operation, arguments)
        except ApiError as error:
            raise FamilyError(f"{tool}({arguments}) is refused: {error.body()}") from error
        changed = []
        for change in state.changes() if operation.writes else ():
            old = before.get((change.collection, change.id), change.before)
            if old is not change.after and old != change.after:
                fields = differing(old or {}, change.after or {})
                changed.append((change.collection, change.id, fields))
        self._steps.append(Step(operation, arguments, bool(changed)))
        return changed, result

    def _freeze(self) -> None:
        """Fix the initial state, because the reference solution starts.

        Records are ordered by id, so that their order does not reveal which of them matter.
        """
        if self._start is not None:
            return
        made = self.state
        tables = {name: dict(sorted(table.items())) for name, table in sorted(made.tables.items())}
        shared: dict[str, Any] = {"now": made.now, "seed": made.seed, "settings": self.settings}
        self._start = State(tables, **shared, counters=made.counters)
        self.state = State(tables, **shared, counters=made.counters)


def _flexible(arguments: dict[str, Any]) -> dict[str, Matcher]:
    """Return the matchers of an operation's arguments by field, for keys of objects as `values.Status`."""
    found = {name: value.matcher for name, value in arguments.items() if isinstance(value, Flexible)}
    for name, value in arguments.items():
        if isinstance(value, dict):
            found |= {f"{name}.{key}": v.matcher for key, v in value.items() if isinstance(v, Flexible)}
    return found
