"""Tasks that an option names."""

import os
from pathlib import Path

import pytest

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.trial.tasks import check_named, task_ids

pytestmark = pytest.mark.component


def test_names_choose_among_the_tasks_of_a_file_too(tmp_path: Path) -> None:
    ids, file = [f"{name}.dev.0" for name in ("bytes", "codec", "places")], tmp_path / "dev.txt"
    file.write_text("\n".join(ids))
    assert task_ids("improve", "dev", file, ("codec", "places.dev.0")) == ids[1:]
    assert task_ids("improve", "dev", ids, ("codec",)) == ids[1:2]
    assert task_ids("improve", "dev", [*ids, *ids]) == ids, "each once"
    with pytest.raises(WrongUseError, match="selects no task of digits"):
        task_ids("improve", "dev", file, ("digits",))


def test_a_pipe_of_ids_is_read_once() -> None:
    """As in `--dev <(mcp-bench tasks improve --split dev --ids)`."""
    reading, writing = os.pipe()
    os.write(writing, b"codec.dev.0")
    os.close(writing)
    try:
        check_named(f"/dev/fd/{reading}", "--dev")
        assert task_ids("improve", "dev", f"/dev/fd/{reading}") == ["codec.dev.0"]
    finally:
        os.close(reading)
