"""One learner in several processes, which torchrun starts: each has a part of the weights and of the rows.

The first process rolls out, decides and writes. What its learner does, those of the others do at the same
time: a call of a method that is marked with `everywhere` is sent to them before it runs. Weights, gradients
and optimizer are split by FSDP2 (https://docs.pytorch.org/docs/2.13/distributed.fsdp.fully_shard.html), each
layer for itself. Gradients are averaged over the processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor, distributed
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.launch import python_line
from mcp_bench.trainer.recipe import Recipe
from mcp_bench.trainer.refusals import no_gpu
from mcp_bench.trainer.sft import processes
from mcp_bench.trainer.sft.model import layer_classes

PATIENCE = timedelta(days=7)
"""How long the others wait for the first process, which rolls out meanwhile."""
END = "end"
_unfinished: list[str] = []
"""In the first process: the call that all processes are making, or in which it failed."""
Batch = TypeVar("Batch")
Owner = TypeVar("Owner")
Given = ParamSpec("Given")
Found = TypeVar("Found")


def several() -> bool:
    """Return whether this is one of several processes."""
    return processes.count() > 1


def join(recipe: Recipe) -> None:
    """Join the other processes, if there are any. Each takes the GPU of its number on its machine.

    Raises:
        WrongUseError: the recipe is for another number of processes, or for a GPU that is not there.
    """
    there, wanted = processes.count(), recipe.hardware.devices
    if there != wanted:
        if processes.rank() > 0:
            raise SystemExit(WrongUseError.exit_code)
        raise WrongUseError(
            f"hardware.devices is {wanted}, but the number of processes is {there}. Start one process per "
            f"device with `{python_line(recipe, sys.argv[1:])}`, or set hardware.devices={there}"
        )
    check_device(recipe)
    if not several():
        return
    cuda = recipe.hardware.device == "cuda"
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=PATIENCE)


def check_device(recipe: Recipe) -> None:
    """Check that this machine has what a recipe is for.

    Raises:
        WrongUseError: there is no GPU, and it is for one.
    """
    for reason in no_gpu(recipe):
        raise WrongUseError(reason)


def leave() -> None:
    """End the other processes' part of the run, and leave their group.

    After an error in a call that all make, the others wait in it for this process, and for no `END`. torchrun
    ends them as soon as this process is gone.
    """
    if not distributed.is_initialized() or _unfinished:
        return
    if processes.rank() == 0:
        _send(END, (), {})
    distributed.destroy_process_group()


def from_first(value: str) -> str:
    """Return the value that the first process passes here."""
    return value if not distributed.is_initialized() else str(_broadcast([value])[0])


def everywhere(
    method: Callable[Concatenate[Owner, Given], Found],
) -> Callable[Concatenate[Owner, Given], Found]:
    """Mark a method of a learner that all processes have to run at the same time."""

    @wraps(method)
    def call(learner: Owner, /, *args: Given.args, **kwargs: Given.kwargs) -> Found:
        if not (distributed.is_initialized() and processes.rank() == 0):
            return method(learner, *args, **kwargs)
        _unfinished.append(method.__name__)
        _send(method.__name__, args, kwargs)
        try:
            found = method(learner, *args, **kwargs)
        except FloatingPointError:  # the others have it at the same place, see `follow`
            _unfinished.pop()
            raise
        _unfinished.pop()
        return found

    return call


def follow(learner: Any) -> None:
    """Do what the first process does, until its end."""
    while True:
        name, args, kwargs = _broadcast([None, None, None])
        if name == END:
            return
        try:
            getattr(learner, name)(*args, **kwargs)
        except FloatingPointError:  # the first process has the same error, and decides
            continue


def split(model: Any) -> Any:
    """Return a model of which this process has a part; the model itself if there is only one process."""
    if not distributed.is_initialized():
        return model
    device = next(model.parameters()).device.type
    mesh = init_device_mesh(device, (processes.count(),))
    classes = set(layer_classes(model))
    for module in list(model.modules()):
        if type(module).__name__ in classes:
            fully_shard(module, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def shares(batches: Sequence[Batch]) -> Iterator[tuple[Batch, bool]]:
    """Yield the batches of this process, and whether they count.

    All processes take the same number of steps, since each step waits for all: a process without a batch
    takes one that does not count.
    """
    rank, count = processes.rank(), processes.count()
    for first in range(0, len(batches), count):
        mine = first + rank
        yield (batches[mine], True) if mine < len(batches) else (batches[first], False)


def add_up(sums: Mapping[str, float]) -> dict[str, float]:
    """Return the sums over all processes, which have the same names."""
    if not distributed.is_initialized():
        return dict(sums)
    values = torch.tensor([sums[name] for name in sorted(sums)], dtype=torch.float64)
    distributed.all_reduce(values)
    return dict(zip(sorted(sums), values.tolist(), strict=True))


def mine(model: Any) -> list[Tensor]:
    """Return the parts of a model's weights that this process has."""
    _part(model)
    return [one.to_local() if isinstance(one, DTensor) else one for one in model.parameters()]


def whole(value: Tensor) -> Tensor:
    """Return a value that all processes know a part of."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def weights_of(model: Any) -> dict[str, Any]:
    """Return all weights of a model; empty in other processes than the first."""
    if not distributed.is_initialized():
        return dict(model.state_dict())
    _part(model)
    return get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))


def set_weights(model: Any, weights: dict[str, Any]) -> None:
    """Give a model weights, which the first process has."""
    if not distributed.is_initialized():
        model.load_state_dict(weights)
        return
    _part(model)
    set_model_state_dict(model, weights, options=_FROM_FIRST)


def state_of(model: Any, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return the state of an optimizer; empty in other processes than the first."""
    if not distributed.is_initialized():
        return dict(optimizer.state_dict())
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return dict(get_optimizer_state_dict(model, optimizer, options=options))


def set_state(model: Any, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Give an optimizer a state, which the first process has."""
    if not distributed.is_initialized():
        optimizer.load_state_dict(state)
        return
    set_optimizer_state_dict(model, optimizer, state, options=_FROM_FIRST)


_FROM_FIRST = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)


def _part(model: Any) -> None:
    """Let go of the weights of others: a forward pass without gradient keeps those outside of layers."""
    if isinstance(model, FSDPModule):
        model.reshard()


def _send(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    _broadcast([name, args, kwargs])


def _broadcast(values: list[Any]) -> list[Any]:
    distributed.broadcast_object_list(values, src=0, device=torch.device("cpu"))
    return values
