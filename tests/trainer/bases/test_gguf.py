"""Models written as GGUF files, and read back: the same weights, tokens and template."""

from __future__ import annotations

import fcntl
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from gguf import GGUFReader, GGUFWriter
from transformers import AutoModelForCausalLM, AutoTokenizer

from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.trainer.cli.export_model import export_model
from mcp_bench.trainer.gguf.architectures import LLAMA, needed
from mcp_bench.trainer.gguf.read import BrokenGgufError, read_gguf, summary
from mcp_bench.trainer.gguf.tokenizer import GgufTokenizer, from_folder, to_transformers
from mcp_bench.trainer.gguf.write import write_gguf
from tests.support.full_disk import full_disk
from tests.support.training.byte_tokenizers import byte_tokenizer
from tests.support.training.tiny_llama import tiny_llama, tiny_llama_folder, tiny_tokenizer

pytestmark = pytest.mark.component

TEXTS = ("Who is in the inn?", "12 345", "naïve 東京 🙂", "<|im_start|>user\nthe\n\n end<|im_end|>")


def export(*arguments: object) -> Result:
    return CliRunner().invoke(export_model, [str(argument) for argument in arguments])


def weights(folder: Path, **options: Any) -> dict[str, Any]:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **options)
    return dict(model.state_dict())


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_llama_folder(tmp_path / "tiny")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tie_word_embeddings": False},
        {"attention_bias": True, "mlp_bias": True},
        {
            "head_dim": 32,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e5},
        },
    ],
    ids=["tied", "untied", "biases", "sizes"],
)
def test_a_model_comes_back_as_it_was(changes: dict[str, Any], tmp_path: Path) -> None:
    folder, back = tiny_llama_folder(tmp_path / "tiny", **changes), tmp_path / "back"
    back.mkdir()
    write_gguf(folder, tmp_path / "tiny.gguf", "f32")
    read_gguf(tmp_path / "tiny.gguf", back)
    assert same(weights(folder), weights(back))
    before, after = (json.loads((one / "config.json").read_bytes()) for one in (folder, back))
    assert {**before, "architectures": 0} == {**after, "architectures": 0}


def test_the_tokenizer_comes_back_as_it_was(folder: Path, tmp_path: Path) -> None:
    back = tmp_path / "back"
    back.mkdir()
    write_gguf(folder, tmp_path / "tiny.gguf", "f32")
    read_gguf(tmp_path / "tiny.gguf", back)
    before, after = (AutoTokenizer.from_pretrained(one) for one in (folder, back))
    for text in TEXTS:
        assert after.encode(text) == before.encode(text)
        assert after.decode(after.encode(text)) == text
    for name in ("chat_template", "special_tokens_map", "all_special_ids"):
        assert getattr(after, name) == getattr(before, name)


def test_text_begins_with_a_token_where_it_did(folder: Path, tmp_path: Path) -> None:
    before = AutoTokenizer.from_pretrained(folder)
    parts = from_folder(folder, len(before))
    begun = to_transformers(replace(parts, add_bos=True), 100)
    begun.save_pretrained(folder)
    for text in TEXTS:
        assert begun.encode(text) == [begun.bos_token_id, *before.encode(text)]
        assert begun.encode(text, add_special_tokens=False) == before.encode(text)
    back = tmp_path / "back"
    back.mkdir()
    write_gguf(folder, tmp_path / "tiny.gguf", "f32")
    read_gguf(tmp_path / "tiny.gguf", back)
    assert AutoTokenizer.from_pretrained(back).encode("a tool") == begun.encode("a tool")


@pytest.mark.parametrize(("pre", "tokens"), [("llama-bpe", ["hot"]), ("qwen2", ["h", "o", "t"])])
def test_words_without_merges_are_tokens_where_llama_cpp_has_it_so(pre: str, tokens: list[str]) -> None:
    parts = GgufTokenizer(["h", "o", "t", "hot", "n", "on"], [1] * 6, ["o n"], pre)
    assert to_transformers(parts, 100).tokenize("hot") == tokens


def test_transformers_reads_the_same_weights(folder: Path, tmp_path: Path) -> None:
    """Its loader shares no code with ours, so it also checks the order of the rows of q and k."""
    write_gguf(folder, tmp_path / "tiny.gguf", "f32")
    assert same(weights(folder), weights(tmp_path, gguf_file="tiny.gguf"))


@pytest.mark.parametrize(("kind", "bits"), [("f16", 16), ("bf16", 16), ("q8_0", 8.5)])
def test_smaller_types_store_matrices_in_fewer_bits(
    kind: str, bits: float, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "small.gguf"
    result = export(folder, "--gguf", out, "--type", kind, "--license", "mit", "--name", "Small", "--json")
    document = json.loads(result.stdout)
    assert document["type"] == kind and document["bytes"] == out.stat().st_size
    reader = GGUFReader(out)
    assert reader.fields["general.name"].contents() == "Small"
    assert reader.fields["general.license"].contents() == "mit"
    for tensor in reader.tensors:
        wanted = 32 if len(tensor.shape) == 1 else bits
        assert tensor.n_bytes * 8 == tensor.n_elements * wanted, tensor.name
    before, after = weights(folder), weights(tmp_path, gguf_file=out.name)
    assert max(float((before[name] - after[name]).abs().max()) for name in before) < 0.002


def test_shards_are_read_and_written(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    back = tmp_path / "back"
    back.mkdir()
    AutoModelForCausalLM.from_pretrained(folder).save_pretrained(folder, max_shard_size="100KB")
    (folder / "model.safetensors").unlink(missing_ok=True)
    assert len(list(folder.glob("*.safetensors"))) > 1
    write_gguf(folder, tmp_path / "tiny.gguf", "f32")
    monkeypatch.setattr("mcp_bench.trainer.gguf.read.SHARD_BYTES", 100_000)
    read_gguf(tmp_path / "tiny.gguf", back)
    assert len(list(back.glob("*.safetensors"))) > 1
    assert same(weights(folder), weights(back))


def test_an_adapter_is_merged_first(folder: Path, tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(1)
    base = AutoModelForCausalLM.from_pretrained(folder)
    tuned = get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False))
    tuned.save_pretrained(tmp_path / "adapter")
    export(folder, "--gguf", tmp_path / "base.gguf", "--type", "f32")
    result = export(tmp_path / "adapter", "--gguf", tmp_path / "tuned.gguf", "--type", "f32")
    assert result.exit_code == 0, result.exception
    before, after = weights(tmp_path, gguf_file="base.gguf"), weights(tmp_path, gguf_file="tuned.gguf")
    differ = {name for name in before if not torch.equal(before[name], after[name])}
    assert differ == {f"model.layers.{layer}.self_attn.q_proj.weight" for layer in (0, 1)}


def test_qwen3_is_written_with_its_norms(tmp_path: Path) -> None:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tokenizer = tiny_tokenizer()
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1, "head_dim": 128}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": True}
    model = Qwen3ForCausalLM(Qwen3Config(vocab_size=len(tokenizer), **sizes, **heads))
    model.save_pretrained(tmp_path / "qwen3")
    tokenizer.save_pretrained(tmp_path / "qwen3")
    written = write_gguf(tmp_path / "qwen3", tmp_path / "out.gguf", "f32")
    assert written.architecture == "qwen3"
    assert same(weights(tmp_path / "qwen3"), weights(tmp_path, gguf_file="out.gguf"))


def test_all_ends_of_an_answer_are_written(folder: Path, tmp_path: Path) -> None:
    """The tokenizer's `eos` is one of them; an answer would not end at the others."""
    back = tmp_path / "back"
    back.mkdir()
    settings = folder / "generation_config.json"
    content = json.loads(settings.read_bytes())
    settings.write_text(json.dumps({**content, "eos_token_id": [0, 1, 2]}))
    write_gguf(folder, tmp_path / "tiny.gguf", "f32")
    fields = GGUFReader(tmp_path / "tiny.gguf").fields
    assert [fields[f"tokenizer.ggml.{name}_token_id"].contents() for name in ("eos", "eot", "eom")] == [
        2,
        0,
        1,
    ]
    read_gguf(tmp_path / "tiny.gguf", back)
    assert json.loads((back / "generation_config.json").read_bytes())["eos_token_id"] == [0, 1, 2]


def test_the_end_of_a_tokenizer_without_one_is_that_of_the_settings(folder: Path, tmp_path: Path) -> None:
    """Of a file without `eos`, llama.cpp takes token 11 for it."""
    tokenizer = tiny_tokenizer()
    tokenizer.eos_token = None
    tokenizer.save_pretrained(folder)
    write_gguf(folder, tmp_path / "tiny.gguf", "f32")
    fields = GGUFReader(tmp_path / "tiny.gguf").fields
    assert fields["tokenizer.ggml.eos_token_id"].contents() == 2
    assert "tokenizer.ggml.eot_token_id" not in fields


def test_of_several_templates_the_one_for_tools_is_written(folder: Path, tmp_path: Path) -> None:
    tiny_tokenizer({"default": "plain", "tool_use": "{{ tools }}"}).save_pretrained(folder)
    write_gguf(folder, tmp_path / "tiny.gguf", "f32")
    assert summary(tmp_path / "tiny.gguf").chat_template == "{{ tools }}"


def test_scaled_positions_of_llama_3_are_written(tmp_path: Path) -> None:
    scaling = {
        "rope_type": "llama3",
        "rope_theta": 500_000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 256,
    }
    folder = tiny_llama_folder(tmp_path / "tiny", rope_parameters=scaling)
    write_gguf(folder, tmp_path / "out.gguf", "f32")
    (factors,) = [one for one in GGUFReader(tmp_path / "out.gguf").tensors if one.name == "rope_freqs.weight"]
    # the fastest rotation is unchanged, the slowest is slower by the factor
    assert factors.data[0] == 1.0 and factors.data[-1] == pytest.approx(8.0)


def _no_end(folder: Path) -> None:
    for name in ("tokenizer_config.json", "generation_config.json", "config.json"):
        content = json.loads((folder / name).read_bytes())
        (folder / name).write_text(json.dumps({**content, "eos_token": None, "eos_token_id": None}))


def _other_type(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "gpt2"}')


def _other_split(folder: Path) -> None:
    content = json.loads((folder / "tokenizer.json").read_bytes())
    content["pre_tokenizer"]["pretokenizers"][0]["individual_digits"] = False
    (folder / "tokenizer.json").write_text(json.dumps(content))


def _whole_words(folder: Path) -> None:
    content = json.loads((folder / "tokenizer.json").read_bytes())
    content["model"]["ignore_merges"] = True
    (folder / "tokenizer.json").write_text(json.dumps(content))


def _no_merges(folder: Path) -> None:
    byte_tokenizer("{{ messages }}").save_pretrained(folder)


def _window(folder: Path) -> None:
    content = json.loads((folder / "config.json").read_bytes())
    (folder / "config.json").write_text(
        json.dumps({**content, "model_type": "mistral", "sliding_window": 128})
    )


def _lacking(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    content = load_file(folder / "model.safetensors")
    del content["model.layers.1.mlp.up_proj.weight"]
    save_file(content, folder / "model.safetensors")


def _many_ends(folder: Path) -> None:
    content = json.loads((folder / "generation_config.json").read_bytes())
    (folder / "generation_config.json").write_text(json.dumps({**content, "eos_token_id": [0, 1, 2, 3]}))


def _beyond_float16(folder: Path) -> None:
    model = tiny_llama(len(tiny_tokenizer()))
    model.model.layers[1].mlp.up_proj.weight.data[0, 0] = 1e6
    model.save_pretrained(folder)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_other_type, "only llama, mistral, qwen2, qwen3 can be written"),
        (_other_split, "splits text in a way that llama.cpp has no name for"),
        (_whole_words, "takes each word of the vocabulary as one token"),
        (_no_merges, "has no merges"),
        (_window, "the last 128 tokens only"),
        (_lacking, "lacks weights: blk.1.ffn_up.weight"),
        (_no_end, "has no token that ends an answer"),
        (_many_ends, "has 3 tokens besides the tokenizer's eos_token that end an answer"),
        (_beyond_float16, "use --type bf16 or f32"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_has_no_form_in_gguf_is_refused(damage: Any, said: str, folder: Path, tmp_path: Path) -> None:
    damage(folder)
    result = export(folder, "--gguf", tmp_path / "out.gguf")
    assert isinstance(result.exception, WrongUseError), result.exception
    assert said in str(result.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny"]


def test_an_existing_file_is_kept_unless_asked(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    out.write_text("precious")
    result = export(folder, "--gguf", out)
    assert "use --force" in str(result.exception) and out.read_text() == "precious"
    assert export(folder, "--gguf", out, "--force").exit_code == 0
    assert out.read_bytes()[:4] == b"GGUF"
    assert "no folder" in str(export(folder, "--gguf", tmp_path / "no" / "out.gguf").exception)
    assert "no fetched base of that name" in str(export("nobody", "--gguf", tmp_path / "a.gguf").exception)


def test_a_full_disk_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    with full_disk(50_000):
        result = export(folder, "--gguf", tmp_path / "out.gguf")
    assert isinstance(result.exception, BenchError) and "cannot write" in str(result.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny"]


def test_two_commands_do_not_write_one_file(folder: Path, tmp_path: Path) -> None:
    out, unfinished = tmp_path / "out.gguf", tmp_path / ".out.gguf.new"
    with unfinished.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write(b"half of it")
        other.flush()
        result = export(folder, "--gguf", out)
        assert isinstance(result.exception, BenchError) and "another process writes" in str(result.exception)
        assert unfinished.read_bytes() == b"half of it" and not out.exists()
    assert export(folder, "--gguf", out).exit_code == 0  # what a killed process left is no obstacle
    assert out.read_bytes() == written_bytes(folder) and not unfinished.exists()


@cache
def written_bytes(folder: Path) -> bytes:
    out = folder.with_suffix(".gguf")
    write_gguf(folder, out, "f16")
    return out.read_bytes()


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.3, 0.6, 0.99])
def test_a_file_that_ends_early_is_refused(share: float, folder: Path, tmp_path: Path) -> None:
    content = written_bytes(folder)
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(BrokenGgufError, match="is not a GGUF file, or is damaged"):
        read_gguf(broken, tmp_path)


def odd_file(
    path: Path,
    architecture: str = "llama",
    kind: str = "gpt2",
    pre: str = "gpt-2",
    parts: int = 1,
    without: str = "",
    more: str = "",
) -> Path:
    """Write a file with all that a Llama model has, except that its weights are of a type that nobody reads."""
    import numpy as np
    from gguf import GGMLQuantizationType

    writer = GGUFWriter(path, architecture)
    writer.add_embedding_length(256)
    writer.add_head_count(4)
    writer.add_feed_forward_length(256)
    writer.add_block_count(1)
    writer.add_context_length(128)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_uint16("split.count", parts)
    writer.add_tokenizer_model(kind)
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(["a", "b", "ab"])
    writer.add_token_merges(["a b"])
    block = np.zeros((3, 292), np.uint8)
    names = needed(LLAMA, 1, tied=True) - {without} | {more} - {""}
    for name in sorted(names, reverse=True):
        writer.add_tensor(name, block, raw_dtype=GGMLQuantizationType.Q8_K)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ({"architecture": "mamba"}, "architecture 'mamba'; only 'llama' is read"),
        ({"kind": "llama"}, "tokenizer of kind 'llama'"),
        ({"pre": "odd"}, "unknown pre-tokenizer 'odd'"),
        ({"parts": 2}, "one of the 2 files that a model was split into"),
        ({"without": "blk.0.attn_k.weight"}, "lacks 1 of the model's tensors: blk.0.attn_k.weight"),
        ({"without": "output_norm.weight"}, "output_norm.weight"),
        ({"more": "blk.0.ffn_up.bias"}, "lacks 2 of the model's tensors: blk.0.ffn_down.bias"),
        ({}, "token_embd.weight is quantised as Q8_K, which cannot be read"),
    ],
)
def test_unknown_kinds_of_files_are_refused(odd: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(WrongUseError, match=said):
        read_gguf(odd_file(tmp_path / "odd.gguf", **odd), tmp_path)
