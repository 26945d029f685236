"""Runs one operation the way a service does: limits first, then all of it or nothing."""

from __future__ import annotations

from typing import Any

from mcp_bench.servers.saasworld.api_error import ApiError
from mcp_bench.servers.saasworld.operation import Arguments, Operation
from mcp_bench.servers.saasworld.state import SECONDS_PER_CALL, State


def execute(state: State, operation: Operation, arguments: Arguments) -> dict[str, Any]:
    """Run an operation on arguments that fit its schema.

    The state's settings can hold limits: `read_only` (names of apps that the user may only read) and
    `calls_per_minute` (by app, in the world's own time).

    Raises:
        ApiError: it was refused; the tables are as they were.
    """
    _count_call(state, operation.app)
    if not operation.writes:
        return operation.run(state, arguments)
    if operation.app in state.settings.get("read_only", ()):
        raise ApiError("permission_denied", f"You have read-only access to {operation.app}.")
    with state.transaction():
        return operation.run(state, arguments)


def tick(state: State) -> None:
    """Let the time of one call pass; every call does, also one that is refused."""
    state.now += SECONDS_PER_CALL


def _count_call(state: State, app: str) -> None:
    most = state.settings.get("calls_per_minute", {}).get(app)
    if most is None:
        return
    recent = [time for time in state.recent_calls.get(app, ()) if time > state.now - 60]
    if len(recent) >= most:
        wait = recent[0] + 60 - state.now
        raise ApiError(
            "rate_limited",
            f"{app} allows {most} calls per minute. Try again later.",
            retry_after_seconds=wait,
        )
    state.recent_calls[app] = [*recent, state.now]
