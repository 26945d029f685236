"""Load a checkpoint into an engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.chat.calls import AnswerParser, find_format
from mcp_bench.trainer.chat.tool_template import tool_template
from mcp_bench.trainer.engine.constraint import Grammars
from mcp_bench.trainer.engine.decoder import Decoder
from mcp_bench.trainer.engine.engine import BATCH, CHUNK, Caches, Engine
from mcp_bench.trainer.engine.few_rows import multiply_few_rows
from mcp_bench.trainer.engine.row_attention import attend_by_rows
from mcp_bench.trainer.engine.rows import RowCache
from mcp_bench.trainer.engine.sampling import Sampling
from mcp_bench.trainer.engine.separate import SeparateCaches

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
BF16_FLAGS = {"avx512_bf16", "amx_bf16"}
"""CPUs with one of these compute with bfloat16 natively; others convert each number, which is slower."""
SHARE = 0.5
"""The part of the free memory that keys and values may take."""
SLOW = 64 << 20
"""Bytes of weights from which a CPU takes a second or more for `CHUNK` tokens of a prompt."""
SLOW_CHUNK = 128
FASTER = 8
"""How much larger a model may be before that is so, where the CPU computes with 16 bits."""
MOST_ON_CPU = 4 << 30
"""Bytes that they take at most by default on a CPU, whose memory agents and worlds need as well."""
WRONG = 0.2
"""How far from a model's own scores, by the largest one, no rounding takes those with a cache."""


@dataclass(frozen=True)
class Loaded:
    """A checkpoint that is ready to answer."""

    engine: Decoder
    model: Any
    tokenizer: Any
    parser: AnswerParser
    positions: int | None
    """The most tokens of prompt and answer; None: unlimited."""
    defaults: Sampling
    """The settings of the checkpoint's generation_config.json."""
    most_tokens: int | None
    """The most tokens of an answer, by the same file."""
    ends: tuple[int, ...]
    grammars: Grammars | None
    """None: llguidance cannot read the tokenizer, so calls cannot be constrained."""


def load(
    folder: str | Path,
    *,
    calls: str,
    reasoning: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    batch: int = BATCH,
    cache_gib: float | None = None,
    max_model_len: int | None = None,
    template: Path | None = None,
) -> Loaded:
    """Load a checkpoint.

    Args:
        folder: the checkpoint's folder.
        calls: the form of tool calls, by vLLM's name of its parser.
        reasoning: the form of thoughts, by vLLM's name of its parser; None: no thoughts.
        device: cpu, cuda, or auto (cuda if there is one).
        dtype: float32, bfloat16, float16, or auto, see `choose_dtype`.
        batch: how many requests are decoded at once.
        cache_gib: memory for keys and values, in GiB. Default: half of what is free once the model is loaded;
            on a CPU, at most 4.
        max_model_len: the most tokens of a conversation. Default: the model's positions.
        template: a file with the chat template. Default: the folder's own.

    Raises:
        WrongUseError: the device is not there, a parser is unknown, the model cannot be decoded with caches,
            or not for as long as `max_model_len`.
    """
    where = find_device(device)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if template is not None:
        tokenizer.chat_template = template.read_text(encoding="utf-8")
    parser = AnswerParser(find_format(calls, tool_template(tokenizer.chat_template) or ""), reasoning)
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    chosen = choose_dtype(dtype, model.dtype, where, size_of(model))
    if chosen != model.dtype:  # again: `to` would round what keeps 32 bits, like rotary frequencies
        del model  # memory need not hold both
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=chosen)
    model = model.to(where).eval()
    if model.device.type == "cpu" and model.dtype == torch.float32 and size_of(model) >= SLOW:
        multiply_few_rows(model)
    attend_by_rows(model)
    ends = end_tokens(model, tokenizer)
    text = model.config.get_text_config()
    trained = getattr(text, "max_position_embeddings", None)
    positions = max_model_len or trained
    if positions and trained and positions > trained:
        _check_longer(model, positions, trained)
    cache_bytes = default_cache(where) if cache_gib is None else int(cache_gib * (1 << 30))
    engine = Engine(
        choose_caches(model),
        tokenizer,
        ends,
        parser,
        where,
        batch=batch,
        cache_bytes=cache_bytes,
        chunk=choose_chunk(model),
    )
    try:
        grammars = Grammars(tokenizer, model.get_output_embeddings().weight.shape[0], ends, parser)
    except WrongUseError:
        grammars = None
    defaults, most = read_defaults(model.generation_config)
    return Loaded(engine, model, tokenizer, parser, positions, defaults, most, ends, grammars)


def find_device(name: str) -> torch.device:
    """Return a device by its name.

    Raises:
        WrongUseError: it is not there.
    """
    there = torch.cuda.is_available()
    if name == "auto":
        return torch.device("cuda" if there else "cpu")
    if name.startswith("cuda") and not there:
        raise WrongUseError(f"--device {name}: this torch finds no CUDA device. Use --device cpu")
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise WrongUseError(f"--device {name} is unknown: use auto, cpu or cuda") from error


def choose_dtype(name: str, own: torch.dtype, device: torch.device, size: int = 0) -> torch.dtype:
    """Return the data type to compute with.

    `auto` is the checkpoint's own type on a GPU. On a CPU it is bfloat16 or float32: the former where the CPU
    computes with it, and the checkpoint has 16 bits or is so large that they are worth the rounding (the
    products of a step of SmolLM2-135M take a quarter of the time). vLLM's `auto` takes 16 bits for
    float32, too.

    Args:
        name: float32, bfloat16, float16, or auto.
        own: the checkpoint's type.
        device: where to compute.
        size: bytes of the checkpoint's weights.
    """
    if name != "auto":
        return DTYPES[name]
    if device.type != "cpu":
        return own
    worth = own == torch.bfloat16 or (own == torch.float32 and size >= SLOW)
    return torch.bfloat16 if worth and BF16_FLAGS & cpu_flags() else torch.float32


def size_of(model: Any) -> int:
    """Return the bytes of a model's weights."""
    return sum(weight.numel() * weight.element_size() for weight in model.parameters())


def cpu_flags() -> set[str]:
    """Return the instruction sets of this machine's CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return {flag for line in lines if line.startswith("flags") for flag in line.split()}


def choose_chunk(model: Any) -> int:
    """Return how much of a prompt is read while others wait for their next token."""
    native = model.dtype == torch.bfloat16 and BF16_FLAGS & cpu_flags()
    slow = model.device.type == "cpu" and size_of(model) >= SLOW * (FASTER if native else 1)
    return SLOW_CHUNK if slow else CHUNK


def default_cache(device: torch.device) -> int:
    """Return the bytes that keys and values may take on a device unless a setting says otherwise."""
    half = int(free_memory(device) * SHARE)
    return min(half, MOST_ON_CPU) if device.type == "cpu" else half


def free_memory(device: torch.device) -> int:
    """Return the bytes that are free on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def end_tokens(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Return the tokens that end an answer: those of the generation settings, else the tokenizer's."""
    given = model.generation_config.eos_token_id
    if given is None:
        given = tokenizer.eos_token_id
    listed = given if isinstance(given, list) else [given]
    return tuple(token for token in listed if token is not None)


def read_defaults(settings: Any) -> tuple[Sampling, int | None]:
    """Return a checkpoint's sampling settings (greedy without `do_sample`) and its limit of new tokens."""
    sampled = bool(settings.do_sample)

    def given(name: str, otherwise: Any) -> Any:
        value = getattr(settings, name, None)
        return otherwise if value is None else value

    return Sampling(
        repetition_penalty=given("repetition_penalty", 1.0),
        temperature=given("temperature", 1.0) if sampled else 0.0,
        top_k=given("top_k", 0) if sampled else 0,
        top_p=given("top_p", 1.0) if sampled else 1.0,
        min_p=given("min_p", 0.0) if sampled else 0.0,
    ), settings.max_new_tokens


def choose_caches(model: Any) -> Caches:
    """Return the caches that this model decodes correctly with.

    Sequences share a batch if all layers are attention over keys and values, no position is rotated by the
    length of the longest sequence, and a trial with two short sequences gives what the model gives without
    caches. Otherwise they are decoded one by one.

    Raises:
        WrongUseError: one by one, the trial fails as well.
    """
    turn = next((one["original_max_position_embeddings"] for one in _rotations(model, "longrope")), None)
    windows = _windows(model) if turn is None else []
    by_type = (False, True) if len(set(windows)) == 1 else (True,)
    for one in by_type if windows else ():
        rows = partial(RowCache, model, windows, mask_by_type=one)
        if _agrees(rows, model, 1e-3 if model.dtype == torch.float32 else 5e-2):
            return rows()
    separate = partial(SeparateCaches, model, turn)
    if not _agrees(separate, model, WRONG):
        raise WrongUseError(
            f"this engine cannot decode models of type {model.config.model_type}: with transformers' cache, "
            "they fail or give other scores than without. vLLM may have this type: use --engine vllm"
        )
    return separate()


def _check_longer(model: Any, positions: int, trained: int) -> None:
    beyond = f"--max-model-len {positions}: beyond its {trained} positions, this model "
    if _rotations(model, "dynamic"):
        raise WrongUseError(
            f"{beyond}rotates all of them anew with each token (dynamic), so nothing can be cached"
        )
    if not getattr(model.config.get_text_config(), "rope_parameters", None):
        raise WrongUseError(f"{beyond}has none: it does not rotate them, so each is a part of its weights")


def _windows(model: Any) -> list[int | None]:
    """Return each layer's window of attention (None: all tokens); nothing if a layer is of another kind."""
    try:
        layers: list[Any] = list(DynamicCache(config=model.config).layers)
    except Exception:  # transformers knows no cache for this type
        return []
    if any(type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers):
        return []
    return [getattr(layer, "sliding_window", None) for layer in layers]


def _rotations(model: Any, kind: str) -> list[dict[str, Any]]:
    """Return the settings of rotary positions of a kind. Types of layers may have settings of their own."""
    found = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    listed = [found] if "rope_type" in found else found.values()
    return [one for one in listed if isinstance(one, dict) and one.get("rope_type") == kind]


@torch.inference_mode()
def _agrees(make: Callable[[], Caches], model: Any, near: float) -> bool:
    """Return whether two sequences of different length, decoded together, get the scores of each alone.

    Args:
        make: makes empty caches.
        model: the model.
        near: how far apart scores may be, by the largest one.
    """
    widest = max((window for window in _windows(model) if window is not None and window <= 64), default=0)
    vocabulary = model.get_input_embeddings().weight.shape[0]
    random = torch.Generator().manual_seed(0)
    texts = [
        torch.randint(vocabulary, (length,), generator=random).to(model.device)
        for length in (widest + 5, widest + 9)
    ]
    try:
        caches = make()
        for text in texts:
            caches.begin(None, 0, len(text))
            for part in (text[:-2],) if caches.whole_prompts else (text[:2], text[2:-2]):
                caches.read(part)
        for at in (-2, -1):
            scores = caches.step(torch.stack([text[at] for text in texts]))
        alone = torch.stack(
            [model(input_ids=text[None], use_cache=False).logits[0, -1].float() for text in texts]
        )
    except Exception:  # a model that does not take such masks or positions
        return False
    return bool((scores - alone).abs().max() <= near * alone.abs().max().clamp(min=1e-3))
