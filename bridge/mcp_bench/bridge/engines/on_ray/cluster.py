"""A Ray cluster: how it is reached, what its nodes have, and places that are reserved on them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from mcp_bench.bridge.engines.on_ray.node import TOKEN_MODE, Node
from mcp_bench.servers.errors import BenchError, MissingDependencyError
from mcp_bench.servers.extras import install_extra

GIVE_UP_SECONDS = "20"
"""How long Ray's driver tries to reach a head that is gone; a minute by default."""
WAIT_SECONDS = 0.2
"""Between two looks at a place that is asked for."""
LABEL = "ray.io/node-id"


class ClusterError(BenchError):
    """The Ray cluster cannot be used; the text says why."""


@dataclass(frozen=True)
class Machine:
    """A node that is alive, as Ray knows it."""

    id: str
    name: str
    resources: dict[str, float]


@contextmanager
def connected(address: str) -> Iterator[str]:
    """Be Ray's driver; yield `HOST:PORT` of the cluster's head.

    Raises:
        MissingDependencyError: Ray is not installed.
        ClusterError: there is no such cluster, or it does not admit this process.
    """
    name, mode = TOKEN_MODE
    if os.environ.get(name) != mode:
        raise ClusterError(
            "Ray accepts commands from anybody who can connect to it, and agents can. Start the nodes and "
            f"this command with {name}={mode}, as docs/recording/scale.md shows"
        )
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", GIVE_UP_SECONDS)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ModuleNotFoundError as error:
        raise MissingDependencyError(f"--ray needs the Python package ray: {install_extra('ray')}") from error
    try:
        ray.init(address=address, namespace="mcp-bench", log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # Ray raises many kinds
        words = str(error).strip().splitlines() or [type(error).__name__]
        raise ClusterError(
            f"cannot reach the Ray cluster at {address}: {words[0]}. This machine must be a node of it: `ray "
            "status` shows whether it is, and `ray start` makes it one"
        ) from error
    try:
        yield str(ray.get_runtime_context().gcs_address)
    finally:
        ray.shutdown()


def machines() -> list[Machine]:
    """Return the nodes that are alive."""
    import ray

    alive = [node for node in ray.nodes() if node["Alive"]]
    names = [str(node["NodeName"]) for node in alive]
    return [
        Machine(
            node["NodeID"],
            name if names.count(name) == 1 else f"{name} ({node['NodeID'][:8]})",
            dict(node["Resources"]),
        )
        for node, name in zip(alive, names, strict=True)
    ]


def actor_on(machine: Machine) -> Any:
    """Start the actor of a node, which takes none of its resources."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(machine.id, soft=False)
    return ray.remote(Node).options(num_cpus=0, scheduling_strategy=there, max_concurrency=1000).remote()


def resources(needs: Collection[str]) -> dict[str, float]:
    """Return what needs are in Ray's resources: `gpu` and `memory:GIB`. Nodes themselves check the others."""
    found = dict[str, float]()
    for need in needs:
        kind, _, value = need.partition(":")
        if kind == "gpu":
            found["GPU"] = 1.0
        elif kind == "memory" and value.isdigit():
            found["memory"] = float(int(value) << 30)
    return found


def has(machine: Machine, wanted: dict[str, float]) -> bool:
    return all(machine.resources.get(name, 0.0) >= amount for name, amount in wanted.items())


@asynccontextmanager
async def reserved(
    wanted: dict[str, float], among: Collection[str], possible: Callable[[], bool]
) -> AsyncIterator[str | None]:
    """Wait until a node has these resources free, and reserve them; yield the node's id.

    Yields None as soon as it is not possible any more.

    Args:
        wanted: Ray's resources.
        among: ids of the nodes that can be used.
        possible: whether a node that is left has these resources at all.
    """
    if not possible():
        yield None
        return
    from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group

    label = {LABEL: f"in({','.join(among)})"}
    group = placement_group([wanted], bundle_label_selector=[label])
    try:
        while possible():
            table = await anyio.to_thread.run_sync(partial(placement_group_table, group))
            if table["state"] == "CREATED":
                yield str(table["bundles_to_node_id"][0])
                return
            await anyio.sleep(WAIT_SECONDS)
        yield None
    finally:
        remove_placement_group(group)
