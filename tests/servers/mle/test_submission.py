"""mle: the sealed state has the submission that was scored, and no other."""

from collections.abc import Sequence
from typing import cast

import pytest

from mcp_bench.servers.errors import SandboxError
from mcp_bench.servers.mle.benchmark import SUBMISSION, MleWorld
from mcp_bench.servers.mle.competition import Data
from mcp_bench.servers.mle.competitions import COMPETITIONS
from mcp_bench.servers.sandbox import FileChange, Sandbox

pytestmark = [pytest.mark.unit, pytest.mark.anyio]
GOOD = b"id,minutes\nr0,30\nr1,40\n"


class Machine:
    """A stand-in for a sandbox."""

    over = ""

    def __init__(self) -> None:
        self.files = {SUBMISSION: GOOD}

    async def read(self, path: str, *, most: int) -> bytes:
        if path not in self.files:
            raise SandboxError(f"{path}: No such file or directory")
        return self.files[path]

    async def halt(self) -> None:
        return None

    async def changes(self) -> Sequence[FileChange]:
        return [FileChange(path=path, kind="file") for path in self.files]

    async def renew(self) -> None:
        return None


@pytest.mark.parametrize(("left", "scored"), [(GOOD, GOOD), (b"id,minutes\n", b""), (None, b"")])
async def test_a_submission_that_was_only_checked_is_not_in_the_state(
    left: bytes | None, scored: bytes
) -> None:
    machine, data = Machine(), Data(("km",), (("1",),) * 4, (10, 20, 30, 40), (10, 20, 30, 40), trained=2)
    world = MleWorld(cast(Sandbox, machine), COMPETITIONS["delivery-times"], data)
    assert not (await world.call("check_submission", {})).is_error
    machine.files = {} if left is None else {SUBMISSION: left}
    grade = await world.grade("")
    assert (grade.strict, grade.metrics["valid"]) == (bool(scored), bool(scored))
    assert await world.snapshot() == {"submission": scored.decode()}
