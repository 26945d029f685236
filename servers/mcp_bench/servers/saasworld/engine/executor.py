"""Run one operation as a service does: check the limits, then run it atomically."""

from __future__ import annotations

from typing import Any

from mcp_bench.servers.saasworld.engine.api_error import ApiError
from mcp_bench.servers.saasworld.engine.operation import Arguments, Operation
from mcp_bench.servers.saasworld.engine.state import SECONDS_PER_CALL, State


def execute(state: State, operation: Operation, arguments: Arguments) -> dict[str, Any]:
    """Run an operation on arguments that match its schema.

    The state's settings can set limits: `read_only` (apps that the user can only read) and `calls_per_minute`
    (by app, in the world's own time).

    Raises:
        ApiError: the call was refused; the tables are unchanged.
    """
    _count_call(state, operation.app)
    if not operation.writes:
        return operation.run(state, arguments)
    if operation.app in state.settings.get("read_only", ()):
        raise ApiError("permission_denied", f"You have read-only access to {operation.app}.")
    with state.transaction():
        return operation.run(state, arguments)


def tick(state: State) -> None:
    """Advance the clock by one call. Refused calls take time, too."""
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
