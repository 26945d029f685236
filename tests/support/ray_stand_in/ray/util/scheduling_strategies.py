"""See `ray`."""

from typing import NamedTuple


class NodeAffinitySchedulingStrategy(NamedTuple):
    node_id: str
    soft: bool
