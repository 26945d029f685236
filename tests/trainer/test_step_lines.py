"""Lines of a run's files: cut off by a kill, and repeated by a resumed run."""

from pathlib import Path

import pytest

from mcp_bench.trainer.step_lines import append_line, keep_until, read_lines

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(("step", "kept"), [(None, []), (0, [0]), (1, [0, 1]), (9, [0, 1, 2])])
def test_lines_after_a_checkpoint_go(tmp_path: Path, step: int | None, kept: list[int]) -> None:
    path = tmp_path / "metrics.jsonl"
    assert list(read_lines(path)) == []
    for number in range(3):
        append_line(path, {"step": number})
    with path.open("a") as file:
        file.write('{"step": 3')
    assert [line["step"] for line in read_lines(path)] == [0, 1, 2]
    keep_until(path, step)
    assert [line["step"] for line in read_lines(path)] == kept
