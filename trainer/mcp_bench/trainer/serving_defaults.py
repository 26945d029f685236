"""What commands, engines and the Python API know about serving before an engine is imported."""

from __future__ import annotations

from typing import Final

OWN_OR_VLLM = ("auto", "vllm", "torch")
"""Engines for folders of weights; `torch` is our own."""
ENGINE_HELP = (
    "Serving engine: vLLM, or our own (torch). auto uses vLLM if MCP_BENCH_VLLM names it, or if it is "
    "installed and there is a GPU."
)
LLAMA_CPP: Final = "llama.cpp"
"""The engine for GGUF files."""
CLIENT_KEY = "OPENAI_API_KEY"
"""The variable from which clients take the key of the endpoint."""
START_SECONDS = 300.0
"""Time for an engine to start answering."""
