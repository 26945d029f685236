"""What starts a recipe on many GPUs: an accelerate configuration, its launch line, and a Slurm script.

All are derived from the recipe, overrides included, so they cannot drift from it. Keys are those of
accelerate 1.15 (https://huggingface.co/docs/accelerate/package_reference/cli).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from mcp_bench.servers.printable import in_line
from mcp_bench.trainer.recipe import Recipe


def accelerate_config(recipe: Recipe) -> dict[str, Any]:
    """Return the configuration of `accelerate launch`: FSDP2, and how devices share a sequence."""
    hardware = recipe.hardware
    config: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "debug": False,
        "num_machines": nodes(recipe),
        "num_processes": hardware.devices,
        "mixed_precision": "no" if recipe.training.precision == "fp32" else "bf16",
        "rdzv_backend": "c10d" if nodes(recipe) > 1 else "static",
        "use_cpu": hardware.device == "cpu",
        "distributed_type": "NO" if hardware.devices == 1 else "MULTI_GPU",
    }
    if hardware.sharding != "fsdp2":
        return config
    # Offloaded layer inputs are the trainer's own business: accelerate's checkpointing would do it twice.
    checkpointing = recipe.training.checkpointing == "on"
    config |= {
        "distributed_type": "FSDP",
        "fsdp_config": {
            "fsdp_version": 2,
            "fsdp_reshard_after_forward": True,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_transformer_layer_cls_to_wrap": recipe.model.architecture.layer_class,
            "fsdp_state_dict_type": "SHARDED_STATE_DICT",
            "fsdp_cpu_ram_efficient_loading": True,
            "fsdp_offload_params": False,
            "fsdp_activation_checkpointing": checkpointing,
        },
    }
    if hardware.context_parallel > 1:
        config["parallelism_config"] = {
            "parallelism_config_dp_replicate_size": 1,
            "parallelism_config_dp_shard_size": hardware.devices // hardware.context_parallel,
            "parallelism_config_tp_size": 1,
            "parallelism_config_cp_size": hardware.context_parallel,
            "parallelism_config_cp_comm_strategy": "allgather",
        }
    return config


def nodes(recipe: Recipe) -> int:
    """Return how many machines the recipe's devices are on."""
    return -(-recipe.hardware.devices // recipe.hardware.devices_per_node)


def launch_line(recipe: Recipe, name: str, overrides: Sequence[str], data: Sequence[str]) -> str:
    """Return the shell line that trains: `mcp-bench train sft` itself on one device, under accelerate on
    more. `NAME.accelerate.yaml` is what `write_launch_files` makes."""
    command = ["train", "sft", name]
    for file in data:
        command += ["--data", file]
    for override in overrides:
        command += ["--set", override]
    if recipe.hardware.devices == 1:
        return shlex.join(["mcp-bench", *command])
    config = f"{_stem(name)}.accelerate.yaml"
    launch = ["accelerate", "launch", "--config_file", config, "--module", "mcp_bench.bridge.cli.root"]
    return shlex.join([*launch, *command])


def slurm_script(recipe: Recipe, name: str, line: str) -> str:
    """Return a batch script: one launcher per node, which starts a process per GPU."""
    launcher = line
    if nodes(recipe) > 1:
        meeting = '--machine_rank "$SLURM_NODEID" --main_process_ip "$HEAD" --main_process_port 29500'
        launcher = line.replace("accelerate launch", f"accelerate launch {meeting}", 1)
    per_node = min(recipe.hardware.devices, recipe.hardware.devices_per_node)
    return f"""#!/bin/bash
# {in_line(recipe.summary)}
#SBATCH --job-name={shlex.quote(name)}
#SBATCH --nodes={nodes(recipe)}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node={per_node}
#SBATCH --cpus-per-task={per_node * 8}
#SBATCH --mem=0
#SBATCH --exclusive
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.log
set -euo pipefail
export HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --kill-on-bad-exit=1 bash -c {shlex.quote(launcher)}
"""


def write_launch_files(recipe: Recipe, name: str, folder: Path, line: str) -> list[Path]:
    """Write `NAME.accelerate.yaml` and `NAME.slurm`, which runs `line`, into a folder; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    config, script = folder / f"{_stem(name)}.accelerate.yaml", folder / f"{_stem(name)}.slurm"
    config.write_text(yaml.safe_dump(accelerate_config(recipe), sort_keys=False), encoding="utf-8")
    script.write_text(slurm_script(recipe, _stem(name), line), encoding="utf-8")
    return [config, script]


def _stem(name: str) -> str:
    """Return a recipe's name, also where it was given as a path: the names that ship have dots in them."""
    return Path(name).stem if name.endswith((".yaml", ".yml")) else name
