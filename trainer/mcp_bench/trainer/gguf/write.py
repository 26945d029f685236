"""Write a model's folder as a GGUF file, for llama.cpp and what is built on it.

One tensor at a time is in memory. The file is renamed into place, so it is always complete.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import prod
from os.path import samestat
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.trainer.gguf.hyperparameters import add_hyperparameters, read_configuration
from mcp_bench.trainer.gguf.read import OnProgress
from mcp_bench.trainer.gguf.tokenizer import MORE_ENDS, GgufTokenizer, from_folder
from mcp_bench.trainer.gguf.weights import Weights

FILE_TYPES = {"f32": "ALL_F32", "f16": "MOSTLY_F16", "bf16": "MOSTLY_BF16", "q8_0": "MOSTLY_Q8_0"}
"""How matrices can be stored: our name, and that in `gguf.LlamaFileType`."""
BLOCK = 32
"""Weights of a block of Q8_0, all of one row."""
FLOAT16_MAX = 65_504.0


@dataclass(frozen=True)
class Written:
    """What was written."""

    path: str
    architecture: str
    type: str
    tensors: int
    parameters: int
    bytes: int


def write_gguf(
    folder: Path,
    out: Path,
    weight_type: str = "f16",
    *,
    name: str | None = None,
    licence: str | None = None,
    on_progress: OnProgress = lambda done, total: None,
) -> Written:
    """Write the model in `folder`, whole and in safetensors, to the file `out`.

    Args:
        folder: configuration, weights, tokenizer and chat template.
        out: the file. An existing one is replaced.
        weight_type: how matrices are stored; vectors are always float32. `q8_0` stores blocks of 32 weights
            as 8-bit integers with a common factor.
        name: the model's name in the file. Default: the folder's.
        licence: an SPDX identifier.
        on_progress: called after each tensor with the bytes written, and all of them.

    Raises:
        WrongUseError: the model or its tokenizer has no form in GGUF, or weights do not fit into float16.
        BenchError: the file cannot be written, or another process writes it.
    """
    import gguf

    architecture, config = read_configuration(folder)
    tokenizer = from_folder(folder, config.vocab_size)
    try:
        with _alone(out) as beside, ExitStack() as files:
            weights = Weights(folder, architecture, config, files)
            writer = files.enter_context(_writer(beside, architecture.name))
            writer.add_type("model")
            writer.add_name(name or folder.resolve().name)
            if licence is not None:
                writer.add_license(licence)
            writer.add_file_type(gguf.LlamaFileType[FILE_TYPES[weight_type]])
            writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
            add_hyperparameters(writer, config)
            _add_tokenizer(writer, tokenizer)
            _write(writer, weights, weight_type, on_progress)
            files.close()
            beside.replace(out)
    except OSError as error:
        raise BenchError(f"cannot write {out}: {error.strerror or error}") from error
    parameters = sum(prod(shape) for shape in weights.shapes.values())
    size = out.stat().st_size
    return Written(str(out), architecture.name, weight_type, len(weights.shapes), parameters, size)


@contextmanager
def _alone(out: Path) -> Iterator[Path]:
    """Yield the unfinished file beside `out`, which only this process writes, and delete it at the end.

    Raises:
        BenchError: another process writes it.
    """
    beside = out.with_name(f".{out.name}.new")
    with beside.open("ab") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours = samestat(beside.stat(), os.fstat(held.fileno()))
        except (BlockingIOError, FileNotFoundError):
            ours = False
        if not ours:  # or it has ended since the file was opened
            raise BenchError(f"another process writes {out}: wait until it ends")
        try:
            yield beside
        finally:
            beside.unlink(missing_ok=True)


@contextmanager
def _writer(path: Path, architecture: str) -> Iterator[Any]:
    from gguf import GGUFWriter

    writer = GGUFWriter(path, architecture)
    try:
        yield writer
    finally:
        writer.close()


def _add_tokenizer(writer: Any, parts: GgufTokenizer) -> None:
    writer.add_tokenizer_model("gpt2")  # byte-level BPE
    writer.add_tokenizer_pre(parts.pre)
    writer.add_token_list(parts.tokens)
    writer.add_token_types(parts.types)
    writer.add_token_merges(parts.merges)
    for name, number in (*parts.special.items(), *zip(MORE_ENDS, parts.ends, strict=False)):
        writer.add_uint32(f"tokenizer.ggml.{name}_token_id", number)
    writer.add_add_bos_token(parts.add_bos)
    writer.add_add_space_prefix(False)
    if parts.chat_template is not None:
        writer.add_chat_template(parts.chat_template)


def _write(writer: Any, weights: Weights, weight_type: str, on_progress: OnProgress) -> None:
    """Write all tensors: first their sizes, which the header has, then one after the other."""
    import numpy as np
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    kinds = {name: _kind(shape, weight_type) for name, shape in weights.shapes.items()}
    sizes = {}
    for name, shape in weights.shapes.items():
        kind = GGMLQuantizationType[kinds[name].upper()]
        block, block_bytes = GGML_QUANT_SIZES[kind]
        sizes[name] = prod(shape) // block * block_bytes
        writer.add_tensor_info(name, shape, np.dtype(np.float32), sizes[name], raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    done, total = 0, sum(sizes.values())
    for name in weights.shapes:
        writer.write_tensor_data(_encoded(weights.read(name), name, kinds[name]))
        done += sizes[name]
        on_progress(done, total)


def _kind(shape: tuple[int, ...], weight_type: str) -> str:
    if len(shape) == 1:
        return "f32"
    return "f16" if weight_type == "q8_0" and shape[-1] % BLOCK else weight_type


def _encoded(array: Any, name: str, kind: str) -> Any:
    import numpy as np
    from gguf import GGMLQuantizationType, quants

    if kind in ("f16", "q8_0") and np.abs(array).max() > FLOAT16_MAX:
        raise WrongUseError(f"{name} has weights beyond the range of float16: use --type bf16 or f32")
    return quants.quantize(array, GGMLQuantizationType[kind.upper()])
