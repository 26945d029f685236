"""Containers that killed referees left are removed by the next one."""

from pathlib import Path

import pytest

from mcp_bench.bridge.sandbox.containers.leftovers import LABEL, owner, remove_leftovers
from mcp_bench.bridge.sandbox.containers.program import Program

pytestmark = pytest.mark.component


@pytest.mark.parametrize(
    "shown", ["map[mcp-bench:base {}:{}]", "mcp-bench=base,{}={}"], ids=["podman", "docker"]
)
def test_one_that_cannot_be_inspected_keeps_no_others(shown: str, tmp_path: Path) -> None:
    """One that was removed only in part, as podman leaves it if it is killed meanwhile."""
    alive = owner()
    owners = {"aa": alive, "bb": f"{alive}1", "cc": f"{alive}2"}
    lines = [f"{identity} {shown.format(LABEL, whose)}" for identity, whose in owners.items()]
    (tmp_path / "list").write_text("\n".join(lines) + "\n")
    program = tmp_path / "program"
    program.write_text(
        "#!/bin/sh\n"
        f"cd {tmp_path}\n"
        'case $1 in ps) cat list;; inspect) exit 125;; rm) echo "$3" >> removed; [ "$3" != bb ];; esac\n'
    )
    program.chmod(0o755)
    assert remove_leftovers(Program(str(program), "")) == ["cc"]
    assert (tmp_path / "removed").read_text().split() == ["bb", "cc"]
