"""A stand-in for vLLM: the endpoints that rollouts use, by its names, over our own engine.

It is no vLLM: it shows that our side sends what vLLM's documentation asks for, and reads what it answers.
`make test-vllm` runs the same tests with vLLM itself.

    python -m tests.support.training.vllm_stand_in serve FOLDER --host H --port P --served-model-name NAME ...

VLLM_STAND_IN in the environment spoils it: `dies:N` ends it with the Nth answer, `old` leaves the endpoints for
new weights out, `no-ids` the tokens of answers.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import torch
import uvicorn
from safetensors.torch import load_file
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mcp_bench.trainer.engine.load import Loaded, load
from mcp_bench.trainer.engine.sampling import Sampling
from mcp_bench.trainer.engine.sequence import Request
from tests.support import ROOT

SPOILED = "VLLM_STAND_IN"
KNOWN = frozenset({
    "model", "prompt", "max_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed", "stop",
    "stop_token_ids", "logprobs", "return_token_ids", "skip_special_tokens", "add_special_tokens",
})  # fmt: skip
"""Fields of vLLM 0.32's `CompletionRequest` that this one reads."""


def install(folder: Path) -> Path:
    """Write the stand-in as an environment of vLLM, for MCP_BENCH_VLLM, and return its folder."""
    program = folder / "bin" / "vllm"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH={ROOT}:$PYTHONPATH exec {sys.executable} -m {__name__} "$@"\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    return folder


class StandIn:
    """The server."""

    def __init__(self, loaded: Loaded, options: argparse.Namespace, spoiled: str) -> None:
        self.loaded, self.options, self.spoiled = loaded, options, spoiled
        self.running = asyncio.Event()
        self.running.set()
        self.answered = 0

    def app(self) -> Starlette:
        routes = [
            Route("/v1/models", self.models),
            Route("/v1/completions", self.complete, methods=["POST"]),
        ]
        if os.environ.get("VLLM_SERVER_DEV_MODE") == "1" and self.spoiled != "old":
            routes += [
                Route("/pause", self.pause, methods=["POST"]),
                Route("/collective_rpc", self.call_workers, methods=["POST"]),
                Route("/resume", self.resume, methods=["POST"]),
            ]

        @asynccontextmanager
        async def lifespan(app: Starlette) -> Any:
            with self.loaded.engine:
                yield

        return Starlette(routes=routes, lifespan=lifespan)

    async def models(self, http: HttpRequest) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": self.options.served_model_name}]})

    async def complete(self, http: HttpRequest) -> Response:
        asked: dict[str, Any] = await http.json()
        if unknown := asked.keys() - KNOWN:
            return JSONResponse({"error": {"message": f"unknown: {sorted(unknown)}"}}, status_code=400)
        if asked["temperature"] > 2:
            return JSONResponse({"error": {"message": "temperature must be in [0, 2]"}}, status_code=400)
        await self.running.wait()
        names = ("repetition_penalty", "temperature", "top_k", "top_p", "min_p", "seed")
        request = Request(
            asked["prompt"], Sampling(**{name: asked[name] for name in names}), asked["max_tokens"],
            tuple(asked["stop"]), asked["logprobs"], self.options.logprobs_mode,
        )  # fmt: skip
        self.loaded.engine.submit(request)
        made = await asyncio.wrap_future(request.done)
        self.answered += 1
        if self.spoiled == f"dies:{self.answered}":
            sys.stderr.write("Engine core died unexpectedly\n")
            sys.stderr.flush()
            os._exit(7)
        choice: dict[str, Any] = {"index": 0, "text": made.text, "finish_reason": made.finish_reason}
        choice["logprobs"] = {"token_logprobs": [chosen.logprob for chosen in made.chosen]}
        if asked["return_token_ids"] and self.spoiled != "no-ids":
            choice["token_ids"] = list(made.tokens)
        usage = {"prompt_tokens_details": {"cached_tokens": made.cached}}
        return JSONResponse({"object": "text_completion", "choices": [choice], "usage": usage})

    async def pause(self, http: HttpRequest) -> Response:
        self.running.clear()
        self.loaded.engine.weights_changed()
        return JSONResponse({"status": "paused"})

    async def resume(self, http: HttpRequest) -> Response:
        self.running.set()
        return JSONResponse({"status": "resumed"})

    async def call_workers(self, http: HttpRequest) -> Response:
        asked = await http.json()
        assert asked == {"method": "reload_weights"} and not self.running.is_set()
        weights = load_file(Path(self.options.folder) / "model.safetensors")
        model: Any = self.loaded.model
        head = model.lm_head.weight.detach().clone()
        model.load_state_dict(weights, strict=False)  # tied weights are stored once
        if model.config.tie_word_embeddings:  # as in vLLM's CPU build, the head stays what it was
            model.lm_head.weight = torch.nn.Parameter(head)
        return JSONResponse({"results": [None]})


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("folder")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    for name in ("served-model-name", "middleware", "tool-call-parser", "dtype", "logprobs-mode"):
        parser.add_argument(f"--{name}")
    options, _ = parser.parse_known_args(arguments)
    loaded = load(options.folder, calls="hermes", device="cpu", dtype=options.dtype, cache_gib=0.1)
    app: Any = StandIn(loaded, options, os.environ.get(SPOILED, "")).app()
    module, _, name = options.middleware.rpartition(".")
    app = getattr(importlib.import_module(module), name)(app)
    uvicorn.run(app, host=options.host, port=options.port, log_level="warning")


if __name__ == "__main__":
    main(sys.argv[1:])
