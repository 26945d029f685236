"""Check a recipe for settings that cannot work, before anything is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from mcp_bench.servers.errors import WrongUseError, suggestion
from mcp_bench.trainer.architectures.base_config import is_gguf
from mcp_bench.trainer.architectures.base_sizes import read_architecture
from mcp_bench.trainer.architectures.layers import EXPERTS, FULL
from mcp_bench.trainer.memory import RESERVE, device_memory, learning_memory
from mcp_bench.trainer.recipe import KERNELS, Attention, Recipe

GIB = 2**30

COMPARED = (
    *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "head_dim", "max_position_embeddings"),
)

SINKS: tuple[Attention, ...] = ("eager", "kernels-community/vllm-flash-attn3")
"""Attention with a sink for each head, which only gpt-oss has."""

HOTTEST = 2.0
"""The highest temperature that vLLM takes."""


def refusals(recipe: Recipe) -> list[str]:
    """Return the reasons why a recipe cannot work, each with a remedy."""
    return [
        *_sizes(recipe),
        *_splitting(recipe),
        *_devices(recipe),
        *_attention(recipe),
        *_lengths(recipe),
        *_prefixes(recipe),
        *_adapters(recipe),
        *_memory(recipe),
    ]


def refusals_here(recipe: Recipe) -> list[str]:
    """Return what a recipe needs to train on files and this machine lacks, each with a remedy."""
    return [*no_gpu(recipe), *_no_kernel(recipe)]


def learning_refusals(recipe: Recipe) -> list[str]:
    """Return the reasons why a recipe cannot learn from reward, by any algorithm, each with a remedy."""
    return [*_learning(recipe), *_learned_weights(recipe), *_engine(recipe)]


def refuse(reasons: Sequence[str]) -> None:
    """Refuse a recipe if there are reasons to.

    Raises:
        WrongUseError: there are; the text lists every reason.
    """
    if reasons:
        raise WrongUseError("the recipe cannot work:" + "".join(f"\n- {reason}" for reason in reasons))


def no_gpu(recipe: Recipe) -> Iterator[str]:
    """Yield a reason if a recipe is for a GPU, and this machine has none."""
    if recipe.hardware.device != "cuda":
        return
    import torch  # for seconds, so only where it is asked

    if not torch.cuda.is_available():
        yield "hardware.device is cuda, but torch finds no GPU: set it to cpu, or work where there is one"


def _no_kernel(recipe: Recipe) -> Iterator[str]:
    attention = recipe.training.attention
    if (module := KERNELS.get(attention)) and find_spec(module) is None:
        yield (
            f"training.attention {attention} needs the Python package {module}, which is not installed. "
            "Install it with `pip install --no-build-isolation 'mcp-bench-trainer[gpu]'`, or set "
            "training.attention=sdpa"
        )


def _splitting(recipe: Recipe) -> Iterator[str]:
    shared, size = recipe.hardware.context_parallel, recipe.architecture
    if shared == 1:
        return
    if size.linear_layers:
        yield (
            f"hardware.context_parallel is {shared}, but {size.linear_layers} of {size.num_hidden_layers} "
            "layers are linear attention. These carry a state along the sequence, which every device would "
            "restart: gradients would be silently wrong. Set it to 1, so that each device has whole sequences"
        )
    if recipe.data.packing:
        yield (
            "data.packing with hardware.context_parallel: context parallelism drops the mask between "
            "packed rows, so they would attend to each other. Disable one of the two"
        )
    if recipe.hardware.sharding != "fsdp2":
        yield "hardware.context_parallel needs hardware.sharding: fsdp2 (accelerate supports no other)"
    if recipe.training.attention != "sdpa":
        yield (
            f"hardware.context_parallel needs training.attention: sdpa, not {recipe.training.attention}. "
            "torch can only split scaled_dot_product_attention"
        )
    if recipe.hardware.devices % shared:
        devices = recipe.hardware.devices
        yield f"hardware.devices ({devices}) is not a multiple of hardware.context_parallel ({shared})"


def _devices(recipe: Recipe) -> Iterator[str]:
    hardware, training = recipe.hardware, recipe.training
    fused = training.attention in KERNELS
    if hardware.device == "cpu":
        if hardware.sharding != "none":
            yield "hardware.sharding fsdp2 is for GPUs: on CPUs accelerate silently ignores it. Use none"
        if fused:
            yield f"training.attention {training.attention} runs on CUDA only: use sdpa on a CPU"
        if training.checkpointing == "offload":
            yield "training.checkpointing offload moves data from a GPU to the host: use on or off on a CPU"
    if fused and training.precision == "fp32":
        yield f"training.attention {training.attention} computes in 16 bits: use sdpa or eager with fp32"
    if recipe.data.packing and not fused:
        yield (
            f"data.packing needs a FlashAttention kernel: with {training.attention}, packed rows attend to "
            "each other. Set training.attention: kernels-community/flash-attn3, or disable packing"
        )
    if hardware.sharding == "fsdp2" and hardware.devices == 1:
        yield "hardware.sharding fsdp2 with one device shards nothing: use none"
    if hardware.sharding == "fsdp2" and training.optimizer == "muon":
        yield "training.optimizer muon works on whole matrices, but fsdp2 splits them: use adamw"
    if hardware.devices > hardware.devices_per_node and hardware.devices % hardware.devices_per_node:
        yield (
            f"hardware.devices ({hardware.devices}) is not a multiple of hardware.devices_per_node "
            f"({hardware.devices_per_node}): every machine starts the same number of processes"
        )


def _sizes(recipe: Recipe) -> Iterator[str]:
    """Compare the numbers in a recipe with those of a base that is here."""
    typed, base = recipe.model.architecture, recipe.model.base
    if typed is None or base is None or not Path(base).is_dir():
        return
    found = read_architecture(base)
    for name in ("model_type", *COMPARED):
        wanted, has = getattr(typed, name), getattr(found, name)
        if wanted != has:
            yield (
                f"model.architecture.{name} is {wanted}, but {base} has {has}. Leave out model.architecture: "
                "the sizes are then read from the base"
            )


def _attention(recipe: Recipe) -> Iterator[str]:
    attention = recipe.training.attention
    if recipe.architecture.model_type != "gpt_oss" or attention in SINKS:
        return
    yield (
        f"training.attention {attention} cannot compute gpt-oss's attention sinks: use "
        "kernels-community/vllm-flash-attn3 on a GPU, or eager"
    )


def _lengths(recipe: Recipe) -> Iterator[str]:
    longest = recipe.architecture.max_position_embeddings
    if recipe.data.max_length > longest:
        yield f"data.max_length ({recipe.data.max_length}) exceeds the model's {longest} positions"


def _prefixes(recipe: Recipe) -> Iterator[str]:
    if not recipe.data.shared_prefix:
        return
    training, size = recipe.training, recipe.architecture
    if training.sequences_per_device == 1:
        yield "data.shared_prefix needs a batch to share it: set training.sequences_per_device to 2 or more"
    if training.checkpointing != "off":
        yield (
            "data.shared_prefix keeps keys and values, which activation checkpointing drops: set "
            "training.checkpointing to off"
        )
    if recipe.hardware.devices > 1:
        yield "data.shared_prefix is for one device: set hardware.devices to 1"
    for other in ("packing", "group_by_length"):
        if getattr(recipe.data, other):
            yield f"data.shared_prefix and data.{other} combine rows in different ways: turn one of them off"
    if size.experts:
        yield (
            "data.shared_prefix computes some tokens of a batch once for all its rows, and the loss that "
            f"balances experts counts them in each row ({size.model_type} has {size.experts} experts): turn "
            "it off"
        )
    if other_layers := [layer.kind for layer in size.layers() if layer.kind != FULL]:
        yield (
            f"data.shared_prefix needs full attention in every layer, but {len(other_layers)} of "
            f"{size.num_hidden_layers} layers have {other_layers[0].replace('_', ' ')}: turn it off"
        )


def _adapters(recipe: Recipe) -> Iterator[str]:
    known = recipe.architecture.projections()
    for name in recipe.lora_targets:
        if name not in known:
            yield f"lora.targets: the model has no {name!r}{suggestion(name, known)}"
    if recipe.lora and recipe.lora.dropout and any(name.startswith(EXPERTS) for name in recipe.lora_targets):
        yield "lora.dropout does not work on fused experts: set it to 0, or set lora.targets without them"
    if recipe.lora and recipe.training.optimizer == "muon":
        yield "training.optimizer muon does not support lora: use adamw"
    if recipe.lora and recipe.model.base is None:
        yield "lora needs a base model, but model.base is null (random weights)"
    if recipe.lora and recipe.model.base and is_gguf(recipe.model.base):
        yield (
            "lora on a GGUF file makes an adapter that cannot be served: convert the file once with "
            f"`mcp-bench train base {recipe.model.base} --name NAME`, and set model.base=NAME"
        )


def _memory(recipe: Recipe) -> Iterator[str]:
    parts = device_memory(recipe)
    need, have = sum(parts.values()), recipe.hardware.memory_gib * RESERVE * GIB
    if need <= have:
        return
    largest = max(parts, key=lambda part: parts[part])
    advice = {
        "weights": "shard them (hardware.sharding: fsdp2), add devices, or use lora",
        "gradients": "shard them (hardware.sharding: fsdp2), add devices, or use lora",
        "optimizer": "shard it (hardware.sharding: fsdp2), add devices, or use lora",
        "gathered": "use lora, or, on one device, precision bf16",
        "activations": "set training.checkpointing to on or offload, or lower data.max_length or "
        "training.sequences_per_device",
        "logits": "lower data.max_length or training.sequences_per_device",
    }[largest]
    yield (
        f"needs about {need / GIB:.1f} GiB per device, which has {recipe.hardware.memory_gib:g} GiB (10 % "
        f"are reserved for fragmentation). The largest part is {largest}: {advice}"
    )


def _learning(recipe: Recipe) -> Iterator[str]:
    hardware, training = recipe.hardware, recipe.training
    if recipe.lora is not None:
        yield "learning from reward trains all weights: use a recipe without lora"
    if recipe.data.shared_prefix:
        yield "data.shared_prefix is for training on files: set it to false"
    if hardware.context_parallel > 1:
        yield "learning from reward keeps each row whole: set hardware.context_parallel=1"
    # on CPUs, imitation refuses to shard, and a loop has one recipe for both; learning does it in any case
    if hardware.devices > 1 and hardware.sharding != "fsdp2" and hardware.device != "cpu":
        yield "learning from reward on several devices needs hardware.sharding=fsdp2"
    if hardware.devices > 1 and training.optimizer == "muon":
        yield "training.optimizer muon works on whole matrices, but fsdp2 splits them: use adamw"
    if training.precision == "bf16":
        yield (
            "training.precision=bf16 stores weights in 16 bits, and rounding loses updates as small as those "
            "from reward: use bf16-mixed, or fp32"
        )


def _learned_weights(recipe: Recipe) -> Iterator[str]:
    """Look at what is certain: the other parts of `learning_memory` may take less."""
    parts = learning_memory(recipe)
    need = parts["weights"] + parts["gradients"] + parts["optimizer"]
    if need > (have := recipe.hardware.memory_gib) * RESERVE * GIB:
        yield (
            f"learning from reward stores all weights with their gradients and optimizer state: about "
            f"{need / GIB:.1f} GiB per device, which has {have:g} GiB (10 % are reserved for fragmentation). "
            "Add devices, with hardware.sharding=fsdp2, or use a smaller base"
        )


def _engine(recipe: Recipe) -> Iterator[str]:
    """Look at the engine for rollouts."""
    engine, hardware = recipe.rl.engine, recipe.hardware
    if engine.kind == "torch":
        if engine.devices or engine.arguments:
            yield "rl.engine.devices and rl.engine.arguments are for rl.engine.kind=vllm"
        if recipe.rl.ahead and hardware.devices == 1:
            yield (
                "rl.ahead=1 samples while weights change, so the engine needs weights of its own: use "
                "rl.engine.kind=vllm, or several devices"
            )
        return
    named = engine.devices
    if hardware.device == "cuda" and not named:
        yield "rl.engine.kind=vllm needs GPUs of its own: name them, such as rl.engine.devices=[6,7]"
    if len(set(named)) < len(named):
        yield f"rl.engine.devices={list(named)} names a GPU twice"
    of_trainer = min(hardware.devices, hardware.devices_per_node)  # each process takes that of its number
    if hardware.device == "cuda" and any(device < of_trainer for device in named):
        yield (
            f"rl.engine.devices={list(named)}: the trainer has the first {of_trainer} of the GPUs that it "
            f"can see, so vLLM's numbers begin at {of_trainer}"
        )
    for name in ("constrain_calls", "min_p"):
        if getattr(recipe.rl, name):
            yield f"rl.{name} needs rl.engine.kind=torch"
    if recipe.rl.temperature > HOTTEST:
        yield f"rl.temperature: vLLM takes {HOTTEST:g} at most"
