"""What `train inspect` finds, on changes that were made by hand."""

from __future__ import annotations

import json
import math
from array import array
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.data import Example
from mcp_bench.trainer.inspection.weights import change
from tests.support.training import tiny_checkpoints
from tests.support.training.byte_tokenizers import byte_tokenizer
from tests.support.training.short_training import rows, write_rows
from tests.support.training.tiny_checkpoints import template

pytestmark = pytest.mark.component

DEV = "simple-contact-details.1.dev.0"
CHANGED = "model.layers.1.self_attn.o_proj.weight"


@given(rank=st.integers(1, 6), scale=st.floats(0.01, 100), tall=st.booleans())
def test_equal_directions_are_counted(rank: int, scale: float, tall: bool) -> None:
    """A change with `rank` equal singular values has this effective and stable rank, at any scale."""
    random = torch.Generator().manual_seed(rank)
    left = torch.linalg.qr(torch.randn(12, rank, generator=random, dtype=torch.float64))[0]
    right = torch.linalg.qr(torch.randn(7, rank, generator=random, dtype=torch.float64))[0]
    made = scale * left @ right.T
    before = torch.randn(12, 7, generator=random, dtype=torch.float64)
    pair = (before, before + made) if tall else (before.T, before.T + made.T)
    found = change("w", *pair)
    assert found.effective_rank == pytest.approx(rank, rel=1e-4)
    assert found.stable_rank == pytest.approx(rank, rel=1e-6)
    assert found.directions == math.ceil(0.9 * rank - 1e-9)
    assert found.size == pytest.approx(scale * rank**0.5)
    assert found.singular == pytest.approx([scale] * rank + [0] * (min(7, 8) - rank), abs=1e-6 * scale)


def test_one_direction_among_unequal_ones() -> None:
    """Singular values 3 and 1: entropy of (3/4, 1/4), and 10 / 9."""
    found = change("w", torch.zeros(4, 4), torch.diag(torch.tensor([3.0, 0.0, 1.0, 0.0])))
    assert found.effective_rank == pytest.approx(math.exp(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25))))
    assert found.stable_rank == pytest.approx(10 / 9)
    assert (found.directions, found.entries) == (1, 2 / 16)


def test_a_tensor_that_did_not_change() -> None:
    found = change("w", torch.ones(3, 3), torch.ones(3, 3))
    assert (found.size, found.relative, found.entries, found.effective_rank) == (0, 0, 0, None)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A tiny Qwen 3, and the same after a change of rank 1 in its second layer."""
    folder = tmp_path_factory.mktemp("models")
    tokenizer = byte_tokenizer(template("qwen3_training"))
    model = tiny_checkpoints.qwen3(len(tokenizer))
    base, trained = folder / "base", folder / "trained"
    for place in (base, trained):
        tokenizer.save_pretrained(place)
    model.save_pretrained(base)
    weight = model.get_parameter(CHANGED)
    with torch.no_grad():
        weight += torch.outer(torch.ones(len(weight)), torch.linspace(-1, 1, weight.shape[1]))
    model.save_pretrained(trained)
    return base, trained


def run(*words: object) -> Result:
    return CliRunner().invoke(train, ["inspect", *map(str, words)], catch_exceptions=False)


def test_a_change_of_one_matrix_is_found(models: tuple[Path, Path], tmp_path: Path) -> None:
    base, trained = models
    data = write_rows(tmp_path / "held-out.jsonl", rows(3))
    page = tmp_path / "page.html"
    result = run(trained, "--base", base, "--data", data, "--html", page, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    touched = {one["name"]: one for one in found["changes"] if one["size"]}
    assert set(touched) == {CHANGED}
    assert touched[CHANGED]["effective_rank"] == pytest.approx(1, abs=1e-3)
    [group] = found["predictions"]
    assert (group["group"], group["rows"]) == ("held-out", 3)
    before, after = group["layers"][:2], group["layers"][2]  # the embedding and layer 1; layer 2
    assert all(layer["cosine"] == pytest.approx(1, abs=1e-5) for layer in before)
    assert all(layer["lens_kl"] == pytest.approx(0, abs=1e-5) for layer in before)
    assert after["cosine"] < 0.999
    assert after["lens_kl"] == pytest.approx(group["kl"], rel=1e-3)  # the last layer is the prediction
    text = page.read_text(encoding="utf-8")
    assert CHANGED in text
    assert text.count("<svg") >= 4


def test_figures_are_those_of_the_plain_models(models: tuple[Path, Path], tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    from mcp_bench.trainer.data import prepare
    from mcp_bench.trainer.recipe import ModelSource
    from mcp_bench.trainer.rows import read_rows
    from mcp_bench.trainer.templates import choose_templates
    from mcp_bench.trainer.tokenizer import load_tokenizer

    data = write_rows(tmp_path / "one.jsonl", rows(1))
    found = json.loads(run(models[1], "--base", models[0], "--data", data, "--json").stdout)["predictions"][0]
    tokenizer = load_tokenizer(str(models[0]))
    [example] = prepare(
        read_rows([data]), tokenizer, choose_templates(tokenizer, ModelSource(base=str(models[0]))), 4096
    ).examples
    wanted = [place for place, trained in enumerate(example.trained) if trained and place]
    logs: list[Any] = []
    for folder in models:
        model: Any = AutoModelForCausalLM.from_pretrained(folder).eval()
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([list(example.tokens)])).logits[0]
        logs.append(torch.log_softmax(logits.double(), -1)[[place - 1 for place in wanted]])
    targets = torch.tensor([example.tokens[place] for place in wanted])
    for number, log in enumerate(logs):
        loss = -float(log.gather(1, targets[:, None]).mean())
        assert found["perplexity"][number] == pytest.approx(math.exp(loss), rel=1e-4)
        assert found["entropy"][number] == pytest.approx(float(-(log.exp() * log).sum(-1).mean()), rel=1e-4)
    divergence = float((logs[1].exp() * (logs[1] - logs[0])).sum(-1).mean())
    assert found["kl"] == pytest.approx(divergence, rel=1e-3)
    assert found["changed"] == float((logs[0].argmax(-1) != logs[1].argmax(-1)).double().mean())
    assert found["tokens"] == len(wanted)


@pytest.mark.parametrize(
    ("kind", "more"), [("Granite", {"logits_scaling": 8.0}), ("Cohere", {"logit_scale": 0.25})]
)
def test_logits_are_scaled_as_the_model_does(kind: str, more: dict[str, float]) -> None:
    import transformers

    from mcp_bench.trainer.inspection.predictions import compare

    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "eos_token_id": 0}
    config = getattr(transformers, f"{kind}Config")(**sizes, **heads, **more, initializer_range=1.0)
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    tokens = array("i", range(1, 11))
    found = compare("g", model, model, [Example("place", tokens, bytes(10 * [1]))], lambda: None)
    with torch.inference_mode():
        logs = torch.log_softmax(model(input_ids=torch.tensor([tokens.tolist()])).logits[0].float(), -1)
    loss = -float(logs[:-1].gather(1, torch.tensor(tokens[1:].tolist())[:, None]).mean())
    assert found.perplexity == pytest.approx((math.exp(loss), math.exp(loss)), rel=1e-4)


def test_a_model_that_is_its_base(models: tuple[Path, Path], tmp_path: Path) -> None:
    data = write_rows(tmp_path / "held-out.jsonl", rows(2))
    result = run(models[0], "--base", models[0], "--data", data)
    assert "0 of " in result.stdout.splitlines()[0]
    assert "loss +0.000 [+0.000, +0.000]), KL 0.0000, 0.0% of predictions changed" in result.stdout


def test_scores_of_another_model_are_not_used(models: tuple[Path, Path], tmp_path: Path) -> None:
    """The folder names what it measured: other weights in the same place are another model."""
    out = tmp_path / "inspection"
    out.mkdir()
    stored = {
        "base": weights_of(models[0]), "model": weights_of(models[1]), "benchmark": "saasworld",
        "dev": [DEV], "max_tokens": 8, "engine": "auto",
    }  # fmt: skip
    (out / "inspection.json").write_text(json.dumps(stored), encoding="utf-8")
    for name in ("base", "model"):
        (out / f"{name}.json").write_text(json.dumps({"run": "run_none"}), encoding="utf-8")
    ids = tmp_path / "ids"
    ids.write_text(DEV, encoding="utf-8")
    asked = ["--dev", ids, "--out", out, "--max-tokens"]
    (tmp_path / "broken.jsonl").write_text("{}\n", encoding="utf-8")  # looked at later
    with pytest.raises(WrongUseError, match=r"with another model:"):
        run(models[0], "--base", models[0], *asked, 8, "--data", tmp_path / "broken.jsonl")
    with pytest.raises(WrongUseError, match=r"with another max_tokens:"):
        run(models[1], "--base", models[0], *asked, 9)
    with pytest.raises(BenchError, match="run_none"):  # the same question: its stored run is read
        run(models[1], "--base", models[0], *asked, 8)


def weights_of(folder: Path) -> dict[str, str]:
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.safetensors")}


def test_rows_that_are_all_too_long(models: tuple[Path, Path], tmp_path: Path) -> None:
    data = write_rows(tmp_path / "held-out.jsonl", rows(2))
    with pytest.raises(BenchError, match=r"2 are over --max-length \(20 tokens"):
        run(models[1], "--base", models[0], "--data", data, "--max-length", 20)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere", "--base", "nowhere"], "no folder nowhere"),
        (["nowhere", "--base", "nowhere", "--dev", "2"], "name a folder for it with --out"),
        (["nowhere", "--base", "nowhere", "--html", "page.txt"], "must end with .html"),
    ],
)
def test_what_cannot_be_inspected(words: list[str], said: str) -> None:
    with pytest.raises(WrongUseError, match=said):
        run(*words)


def test_another_models_weights_are_refused(models: tuple[Path, Path], tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    other = tmp_path / "other"
    other.mkdir()
    for file in models[0].iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    weights = load_file(other / "model.safetensors")
    weights[CHANGED] = weights[CHANGED][:-1].clone()
    save_file(weights, other / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(WrongUseError, match="is this its base"):
        run(other, "--base", models[0])
