"""Read a GGUF file as a folder that transformers loads: configuration, weights in float32 and tokenizer.

The weights are exactly the numbers that the file stands for. transformers also reads GGUF files, but what
it makes of them cannot be saved as it is.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.gguf.architectures import (
    ATTENTION,
    FEED_FORWARD,
    LLAMA,
    heads_of,
    needed,
    separate,
    transformers_name,
)
from mcp_bench.trainer.gguf.tokenizer import MORE_ENDS, SPECIAL_IDS, GgufTokenizer, to_transformers

OnProgress = Callable[[int, int], None]
"""Called with the bytes of weights that are written, and all of them."""
SHARD_BYTES = 2 << 30


class BrokenGgufError(WrongUseError):
    """The file is not a GGUF file, is damaged, or has something that is not read."""


def read_gguf(file: Path, folder: Path, on_progress: OnProgress = lambda done, total: None) -> None:
    """Write the model in a GGUF file to a folder, which must exist.

    Quantised weights become the numbers that they stand for. float32 holds them exactly, bfloat16 does not: a
    weight of Q4_1 is d * q + m, with d and m in float16 and 4 bits of q.

    Args:
        file: the file, with the architecture `llama`.
        folder: where to write.
        on_progress: called after each tensor.

    Raises:
        BrokenGgufError: the file cannot be read or has only a part of the model, or its architecture,
            quantisation or tokenizer is unknown.
        OSError: the folder cannot be written.
    """
    fields, tensors = _open(file)
    _refuse_parts(file, fields)
    config = _configuration(file, fields, tensors)
    _refuse_gaps(file, config, tensors)
    config.save_pretrained(folder)
    tokenizer = _tokenizer(file, fields)
    to_transformers(tokenizer, config.max_position_embeddings).save_pretrained(folder)
    _generation(fields, tokenizer).save_pretrained(folder)
    _write_weights(file, folder, config, tensors, on_progress)


@dataclass(frozen=True)
class GgufSummary:
    """What a GGUF file says about its model."""

    architecture: str
    chat_template: str | None


def summary(file: Path) -> GgufSummary:
    """Return what a GGUF file says about its model, of any architecture and quantisation.

    Raises:
        WrongUseError: the file is missing or damaged.
    """
    fields, _ = _open(file)
    template = _value(file, fields, "tokenizer.chat_template", None)
    return GgufSummary(_value(file, fields, "general.architecture"), template)


def _open(file: Path) -> tuple[Mapping[str, Any], list[Any]]:
    from gguf import GGUFReader

    try:
        reader = GGUFReader(file)
    except FileNotFoundError as error:
        raise WrongUseError(f"no file {file}") from error
    except Exception as error:  # whatever numpy raises on a file that ends early
        raise BrokenGgufError(f"{file} is not a GGUF file, or is damaged: {error}") from error
    return reader.fields, reader.tensors


def _value(file: Path, fields: Mapping[str, Any], key: str, default: Any = ...) -> Any:
    if key in fields:
        return fields[key].contents()
    if default is ...:
        raise BrokenGgufError(f"{file} lacks {key}")
    return default


def _refuse_parts(file: Path, fields: Mapping[str, Any]) -> None:
    parts = _value(file, fields, "split.count", 1)
    if parts > 1:
        raise BrokenGgufError(
            f"{file} is one of the {parts} files that a model was split into: join them first with "
            "llama.cpp, as in `llama-gguf-split --merge FIRST WHOLE`"
        )


def _refuse_gaps(file: Path, config: Any, tensors: list[Any]) -> None:
    """Refuse a file that lacks tensors: transformers would make up what is missing, with a warning only."""
    wanted = needed(LLAMA, config.num_hidden_layers, tied=config.tie_word_embeddings)
    biased = [*(ATTENTION if config.attention_bias else ()), *(FEED_FORWARD if config.mlp_bias else ())]
    wanted |= {f"blk.{layer}.{part}.bias" for layer in range(config.num_hidden_layers) for part in biased}
    if missing := sorted(wanted - {tensor.name for tensor in tensors}):
        raise BrokenGgufError(
            f"{file} lacks {len(missing)} of the model's tensors: {', '.join(missing[:3])}. It is damaged, "
            "or has only a part of the model: get the whole file"
        )


def _configuration(file: Path, fields: Mapping[str, Any], tensors: list[Any]) -> Any:
    from transformers import LlamaConfig

    architecture = _value(file, fields, "general.architecture")
    if architecture != LLAMA.name:
        raise BrokenGgufError(
            f"{file} has a model of architecture {architecture!r}; only {LLAMA.name!r} is read. Name the "
            "original model instead, as a folder or Hub name"
        )
    if any(tensor.name.startswith("rope_freqs") for tensor in tensors) or "llama.rope.scaling.type" in fields:
        raise BrokenGgufError(f"{file} scales its positions (rope scaling), which is not read")

    def number(key: str, default: Any = ...) -> Any:
        value = _value(file, fields, f"llama.{key}", default)
        return float(f"{value:.7g}") if isinstance(value, float) else value  # float32, as people write it

    width, heads = number("embedding_length"), number("attention.head_count")
    names = {tensor.name for tensor in tensors}
    (rows,) = [int(tensor.shape[1]) for tensor in tensors if tensor.name == "token_embd.weight"] or [0]
    return LlamaConfig(
        architectures=[LLAMA.model_class],
        vocab_size=rows,
        hidden_size=width,
        intermediate_size=number("feed_forward_length"),
        num_hidden_layers=number("block_count"),
        num_attention_heads=heads,
        num_key_value_heads=number("attention.head_count_kv", heads),
        head_dim=number("attention.key_length", width // heads),
        max_position_embeddings=number("context_length"),
        rms_norm_eps=number("attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": number("rope.freq_base", 10_000.0)},
        attention_bias="blk.0.attn_q.bias" in names,
        mlp_bias="blk.0.ffn_up.bias" in names,
        tie_word_embeddings="output.weight" not in names,
        dtype="float32",
        **{
            f"{name}_token_id": _value(file, fields, f"tokenizer.ggml.{key}_token_id", None)
            for key, name in (("bos", "bos"), ("eos", "eos"), ("padding", "pad"))
        },
    )


def _tokenizer(file: Path, fields: Mapping[str, Any]) -> GgufTokenizer:
    kind = _value(file, fields, "tokenizer.ggml.model")
    if kind != "gpt2":
        raise BrokenGgufError(f"{file} has a tokenizer of kind {kind!r}; only byte-level BPE (gpt2) is read")
    tokens = _value(file, fields, "tokenizer.ggml.tokens")
    special = {name: _value(file, fields, f"tokenizer.ggml.{name}_token_id", None) for name in SPECIAL_IDS}
    return GgufTokenizer(
        tokens=tokens,
        types=_value(file, fields, "tokenizer.ggml.token_type", [1] * len(tokens)),
        merges=_value(file, fields, "tokenizer.ggml.merges"),
        pre=_value(file, fields, "tokenizer.ggml.pre", "gpt-2"),
        special={name: number for name, number in special.items() if number is not None},
        add_bos=_value(file, fields, "tokenizer.ggml.add_bos_token", False),
        chat_template=_value(file, fields, "tokenizer.chat_template", None),
    )


def _generation(fields: Mapping[str, Any], tokenizer: GgufTokenizer) -> Any:
    from transformers import GenerationConfig

    ids = tokenizer.special
    more = [fields.get(f"tokenizer.ggml.{name}_token_id") for name in MORE_ENDS]
    ends = [ids.get("eos"), *(field.contents() for field in more if field is not None)]
    stops = sorted({number for number in ends if number is not None})
    return GenerationConfig(
        bos_token_id=ids.get("bos"), eos_token_id=stops or None, pad_token_id=ids.get("padding")
    )


def _write_weights(
    file: Path, folder: Path, config: Any, tensors: list[Any], on_progress: OnProgress
) -> None:
    """Write safetensors files, each with whole tensors of up to `SHARD_BYTES`, and their index."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    shards: list[list[Any]] = [[]]
    filled = 0
    for tensor in tensors:
        size = 4 * int(tensor.n_elements)
        if shards[-1] and filled + size > SHARD_BYTES:
            shards.append([])
            filled = 0
        shards[-1].append(tensor)
        filled += size
    total = sum(4 * int(tensor.n_elements) for tensor in tensors)
    done, index = 0, {}
    for place, shard in enumerate(shards, 1):
        name = "model.safetensors"
        if len(shards) > 1:
            name = f"model-{place:05}-of-{len(shards):05}.safetensors"
        weights = {}
        for ours, array in _dequantised(file, config, shard):
            weights[ours], index[ours] = array, name
            done += array.nbytes
            on_progress(done, total)
        try:
            save_file(weights, folder / name, metadata={"format": "pt"})
        except SafetensorError as error:  # its only reason here: the disk
            raise OSError(errno.EIO, str(error), str(folder / name)) from error
    if len(shards) > 1:
        content = {"metadata": {"total_size": total}, "weight_map": index}
        (folder / "model.safetensors.index.json").write_text(json.dumps(content, indent=2), encoding="utf-8")


def _dequantised(file: Path, config: Any, tensors: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names in transformers, and arrays of float32 of the shapes that it wants."""
    import numpy as np
    from gguf import quants

    for tensor in tensors:
        name = transformers_name(LLAMA, tensor.name)
        if name is None:
            raise BrokenGgufError(f"{file} has a tensor {tensor.name!r}, which models of type llama lack")
        try:
            array = quants.dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError as error:
            raise BrokenGgufError(
                f"{file}: {tensor.name} is quantised as {tensor.tensor_type.name}, which cannot be read"
            ) from error
        array = array.reshape(tuple(reversed(tensor.shape.tolist())))
        heads = heads_of(tensor.name, config.num_attention_heads, config.num_key_value_heads)
        yield name, np.ascontiguousarray(array if heads is None else separate(array, heads), np.float32)
