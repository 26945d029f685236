"""All levels, weakest first."""

from __future__ import annotations

from mcp_bench.bridge.isolation.bwrap import Bwrap
from mcp_bench.bridge.isolation.landlock import Landlock
from mcp_bench.bridge.isolation.level import Level
from mcp_bench.bridge.isolation.other_uid import OtherUid
from mcp_bench.bridge.isolation.unconfined import Unconfined
from mcp_bench.recorder.curation.selection import LEVELS as NAMES

ALL: tuple[Level, ...] = (Unconfined(), Landlock(), Bwrap(), OtherUid())
BY_NAME = {level.name: level for level in ALL}
assert tuple(BY_NAME) == NAMES  # noqa: S101 - `export --require-isolation` has the same order
