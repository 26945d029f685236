"""Commands that start a recipe on several devices: a torchrun line, and a Slurm script that runs it.

Both are derived from the recipe with its overrides, so they always match it. Each process reads from the
recipe how the devices share the model; see `sft_config`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.terminal.sanitize import sanitize_line
from mcp_bench.trainer.folders import make_folder
from mcp_bench.trainer.recipe import Recipe, stem

SHUTDOWN = "--shutdown-timeout=1800"
"""After a signal, processes finish their step and save. By default, torchrun kills them after 30 seconds."""

PORT = 29500


def nodes(recipe: Recipe) -> int:
    """Return the number of machines that the recipe's devices need."""
    return -(-recipe.hardware.devices // recipe.hardware.devices_per_node)


def launch_line(
    recipe: Recipe, name: str, overrides: Sequence[str], data: Sequence[str], tokenizer: str | None = None
) -> str:
    """Return the shell command that trains, under torchrun for several devices.

    It is `mcp-bench train sft`; for a recipe with a section `rl` and without data, `mcp-bench train rl`. For
    several machines, run it on each of them with the host name of one as `HEAD` in the environment.
    """
    if "rl" in recipe.model_fields_set and not data:
        command = ["train", "rl", name, "--start", "MODEL", "--tasks", "ids.txt"]
    else:
        command = ["train", "sft", name]
        for file in data or ["train.jsonl"]:
            command += ["--data", file]
        if tokenizer is not None or (recipe.model.tokenizer or recipe.model.base) is None:
            command += ["--tokenizer", tokenizer or "MODEL"]
    for override in overrides:
        command += ["--set", override]
    if recipe.hardware.devices > 1:
        command += ["--out", f"{stem(name)}-run"]
    return python_line(recipe, command)


def python_line(recipe: Recipe, arguments: Sequence[str]) -> str:
    """Return the shell command that runs mcp-bench with these arguments on the recipe's devices.

    After `--`, torchrun takes no option for an abbreviation of its own (`--start` for `--start-method`).
    """
    if recipe.hardware.devices == 1:
        return shlex.join(["mcp-bench", *arguments])
    return f"{_torchrun(recipe)} -m -- mcp_bench.bridge.cli.root {shlex.join(arguments)}"


def launcher_arguments(recipe: Recipe) -> list[str]:
    """Return Python arguments that start a module on all devices of this machine, by torchrun if several."""
    if recipe.hardware.devices == 1:
        return []
    return ["-m", "torch.distributed.run", *_on_one_machine(recipe)]


def _on_one_machine(recipe: Recipe) -> list[str]:
    return ["--standalone", f"--nproc-per-node={recipe.hardware.devices}", SHUTDOWN]


def _torchrun(recipe: Recipe) -> str:
    machines = nodes(recipe)
    if machines == 1:
        return shlex.join(["torchrun", *_on_one_machine(recipe)])
    meeting = f'--rdzv-backend=c10d --rdzv-endpoint="$HEAD:{PORT}"'
    processes = f"--nnodes={machines} --nproc-per-node={recipe.hardware.devices_per_node}"
    return f"torchrun {processes} {SHUTDOWN} {meeting}"


def slurm_script(recipe: Recipe, name: str, line: str) -> str:
    """Return a batch script that starts one launcher per node, which starts one process per device."""
    per_node = min(recipe.hardware.devices, recipe.hardware.devices_per_node)
    gpus = f"#SBATCH --gpus-per-node={per_node}\n" if recipe.hardware.device == "cuda" else ""
    return f"""#!/bin/bash
# {sanitize_line(recipe.summary)}
#SBATCH --job-name={shlex.quote(name)}
#SBATCH --nodes={nodes(recipe)}
#SBATCH --ntasks-per-node=1
{gpus}#SBATCH --cpus-per-task={per_node * 8}
#SBATCH --mem=0
#SBATCH --exclusive
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.log
set -euo pipefail
export HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --kill-on-bad-exit=1 bash -c {shlex.quote(line)}
"""


def write_slurm_script(recipe: Recipe, name: str, folder: Path, line: str) -> Path:
    """Write `NAME.slurm`, which runs `line`, to a folder and return its path.

    Raises:
        WrongUseError: it cannot be written there.
    """
    make_folder(folder)
    script = folder / f"{stem(name)}.slurm"
    try:
        script.write_text(slurm_script(recipe, stem(name), line), encoding="utf-8")
    except OSError as error:
        raise WrongUseError(f"cannot write {script}: {error.strerror}") from error
    return script
