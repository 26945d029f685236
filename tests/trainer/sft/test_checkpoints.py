"""Only completely written checkpoints count."""

from pathlib import Path

import pytest

from mcp_bench.trainer.sft.checkpoints import last_complete, mark_complete

pytestmark = pytest.mark.component


def test_a_sharded_checkpoint_with_subfolders_counts(tmp_path: Path) -> None:
    for step in (9, 10, 11):
        shards = tmp_path / f"checkpoint-{step}" / "pytorch_model_fsdp_0"
        shards.mkdir(parents=True)
        (shards / "__0_0.distcp").write_bytes(b"weights")
        if step < 11:
            mark_complete(tmp_path / f"checkpoint-{step}")
    assert last_complete(tmp_path) == tmp_path / "checkpoint-10"
