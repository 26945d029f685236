"""What a recipe needs is looked for before anything is recorded: it can be paid for."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.cli.loop import loop
from mcp_bench.trainer.trial.recipe import trial_recipe
from tests.support.training.tiny_checkpoints import make_tokenizer, qwen3, save, template

pytestmark = pytest.mark.component


@pytest.mark.parametrize(
    ("lacks", "said"),
    [
        ("model.safetensors", "has no weights (*.safetensors)"),
        ("tokenizer.json", "has no tokenizer (tokenizer.json)"),
    ],
)
def test_a_base_without_a_part_is_reported_before_recording(tmp_path: Path, lacks: str, said: str) -> None:
    tokenizer = make_tokenizer(template("qwen3"))
    base = save(qwen3(len(tokenizer)), tokenizer, tmp_path / "base")
    (base / lacks).unlink()
    recipe = yaml.safe_load((resources.files("mcp_bench.trainer") / "recipes/tiny-cpu.yaml").read_text())
    mine = tmp_path / "mine.yaml"
    mine.write_text(yaml.safe_dump({**recipe, "model": {"base": str(base)}}))
    few = ["--train", "1", "--dev", "1", "--test", "0", "--out", str(tmp_path / "loop")]
    result = CliRunner().invoke(loop, ["--recipe", str(mine), *few])
    assert isinstance(result.exception, WrongUseError)
    assert said in str(result.exception)
    assert not (tmp_path / "loop").exists()


def test_a_gpu_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(WrongUseError, match="is cuda, but torch finds no GPU"):
        trial_recipe("tiny-cpu", ["hardware.device=cuda"])
