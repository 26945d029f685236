"""The data of tau2-bench by domain, from inspect-evals: tasks, splits, policies, tools and databases."""

from __future__ import annotations

import gzip
import json
from functools import cache
from importlib import import_module
from typing import Any

from inspect_ai.util import Store
from inspect_evals.tau2 import utils
from inspect_evals.tau2.data_model.tasks import Task as Record

from mcp_bench.servers.adapters.inspect_tools import definitions

SOLO = "telecom-solo"
DOMAINS = (SOLO, "telecom", "retail", "airline")
READS = ("get_", "list_", "search_", "find_", "calculate", "transfer_to_human_agents")
"""Tools of the shops that change nothing."""
REFUSED = ("retail.12", "retail.105")
"""Tasks of the shops whose reference changes nothing, since the only call that would is refused."""
SERVICE = (
    "You are a customer service agent that helps the user according to the policy below. Always follow it."
)


def base(domain: str) -> str:
    return domain.removesuffix("-solo")


def part(domain: str, module: str, name: str) -> Any:
    return getattr(import_module(f"inspect_evals.tau2.{base(domain)}.{module}"), name)


def data(domain: str, name: str) -> str:
    found: bytes = (utils.TAU2_DATA_DIR / "domains" / base(domain) / name).read_bytes()
    return (gzip.decompress(found) if name.endswith(".gz") else found).decode()


@cache
def split_of(domain: str) -> dict[str, str]:
    splits = json.loads(data(domain, "split_tasks.json"))
    return {task: split for split in ("train", "test") for task in splits[split]}


@cache
def records(domain: str) -> dict[str, Any]:
    rows = json.loads(data(domain, "tasks.json.gz" if base(domain) == "telecom" else "tasks.json"))
    return {row["id"]: Record.model_validate(row) for row in rows if row["id"] in split_of(domain)}


@cache
def groups() -> list[str]:
    """Return the tickets of telecom: its tasks share them, also between the splits."""
    return sorted({record.ticket for record in records("telecom").values()})


@cache
def policy(domain: str) -> str:
    if domain == SOLO:
        files = {
            "main_policy": "main_policy_solo.txt",
            "tech_support_policy": "tech_support_workflow_solo.txt",
        }
        return "\n".join(f"<{tag}>\n{data(domain, name)}\n</{tag}>" for tag, name in files.items())
    words = {"workflow": False} if domain == "telecom" else {}
    return f"{SERVICE}\n{part(domain, 'agents', 'get_domain_policy')(**words)}"


@cache
def tools_of(domain: str, side: str = "agent") -> dict[str, Any]:
    """Return the tools of the agent, or of the user. Alone, the agent has both."""
    own = f"all_{domain}_tools" if base(domain) != "telecom" else "all_telecom_agent_tools"
    kinds = [*part(domain, "tools", own)] if side == "agent" else []
    if domain == SOLO or (domain == "telecom" and side == "user"):
        kinds += part(domain, "user_tools", "all_telecom_user_tools")
    return definitions(kind() for kind in kinds)


@cache
def database(domain: str) -> Any:
    """Return a shop's database as it is at first; parsing it takes half a second."""
    kind = f"{domain.capitalize()}AgentTools"
    shop = part(domain, kind, kind)(store=Store())
    shop.initialize()
    return shop.db


@cache
def unchanged(domain: str, name: str) -> bool:
    """Return whether a shop's database should stay as it is."""
    actions = records(domain)[name].evaluation_criteria.actions or ()
    reads = all(one.name.startswith(READS) for one in actions)
    return base(domain) != "telecom" and (reads or f"{domain}.{name}" in REFUSED)


def vacuous(domain: str, name: str) -> bool:
    """Return whether doing nothing is right, as in some tasks of the shops."""
    return unchanged(domain, name) and not records(domain)[name].evaluation_criteria.communicate_info
