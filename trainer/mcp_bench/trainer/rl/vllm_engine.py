"""Sample attempts with a vLLM server of the run, which gets the new weights after each step.

The server is a child process, behind its key, and listens on loopback. A request goes to its
`POST /v1/completions`, with the tokens of the prompt and `return_token_ids`, so tokens are never made from
text. Log-probabilities are those of the distribution that was sampled from, since the server is started with
`--logprobs-mode processed_logprobs`, and nothing but the temperature changes that distribution.

New weights are written to the served folder. `POST /pause` ends what may still be running and empties the
cache of prefixes; the workers' method `reload_weights` reads the folder (`POST /collective_rpc`);
`POST /resume` goes on. vLLM has these endpoints where VLLM_SERVER_DEV_MODE is set: see its
https://docs.vllm.ai/en/stable/training/weight_transfer/ and `vllm/entrypoints/serve/dev/`. They are behind
the key, like all others.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import httpx2
import torch
from anyio.from_thread import BlockingPortal, start_blocking_portal

from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.servers.terminal.sanitize import sanitize_line
from mcp_bench.trainer.engine.api.errors import ApiError
from mcp_bench.trainer.engine.decoder import Decoder
from mcp_bench.trainer.engine.load import Loaded
from mcp_bench.trainer.engine.sampling import Chosen
from mcp_bench.trainer.engine.sequence import Completion, Decoding, Request, hidden_tokens
from mcp_bench.trainer.recipe import Recipe
from mcp_bench.trainer.serving import Server, serve
from mcp_bench.trainer.sft.model import save_result

MODEL = "policy"
"""The server's name for the model."""
START_SECONDS = 1800.0
"""Large models are loaded and compiled first."""
SHOWN = 500
"""Characters of an error of the server that are shown."""
TOO_OLD = "vLLM 0.32 can"


def with_engine(loaded: Loaded, folder: Path, recipe: Recipe) -> Loaded:
    """Return a policy with the engine that its recipe asks for.

    Args:
        loaded: the policy, with our own engine.
        folder: where a server reads the weights from.
        recipe: the settings.
    """
    wanted = recipe.rl.engine
    sizes = [size for size in (loaded.positions, wanted.max_model_len) if size is not None]
    loaded = replace(loaded, positions=min(sizes, default=None))
    return loaded if wanted.kind == "torch" else replace(loaded, engine=VllmEngine(loaded, folder, recipe))


class VllmEngine(Decoder):
    """A vLLM server with the weights of a model of this process."""

    def __init__(self, loaded: Loaded, folder: Path, recipe: Recipe) -> None:
        """Prepare. Opening the context writes the weights, and starts the server.

        Args:
            loaded: the model with its tokenizer.
            folder: where its weights are written; the server reads them there.
            recipe: the server's devices and the precision.
        """
        self._loaded, self._folder, self._recipe = loaded, folder, recipe
        self._hidden = hidden_tokens(loaded.tokenizer, loaded.parser)
        self._ends = frozenset(loaded.ends)
        self._open = ExitStack()
        self._server: Server | None = None
        self._portal: BlockingPortal
        self._client: httpx2.AsyncClient

    def __enter__(self) -> Self:
        self._write()
        with ExitStack() as opened:
            server = opened.enter_context(self._serve())
            root = server.base_url.removesuffix("/v1")
            client = httpx2.AsyncClient(
                base_url=root,
                headers={"Authorization": f"Bearer {server.key}"},
                timeout=None,
                trust_env=False,
                limits=httpx2.Limits(max_connections=None),
            )
            self._portal = opened.enter_context(start_blocking_portal())
            self._client = opened.enter_context(self._portal.wrap_async_context_manager(client))
            self._server = server
            opened.callback(self._stopped)
            self._try_out()
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _stopped(self) -> None:
        self._server = None

    def submit(self, request: Request) -> None:
        task = self._portal.start_task_soon(self._answer, request)
        request.done.add_done_callback(lambda done: task.cancel() if done.cancelled() else None)

    def weights_changed(self) -> None:
        if self._server is not None:  # it reads them when it starts
            self._write()
            self._reload()

    def forget(self) -> None:
        """Do nothing: the server has memory of its own."""

    def check(self) -> None:
        if self._server is not None:
            self._server.check()

    def _serve(self) -> Any:
        engine = self._recipe.rl.engine
        variables = {"VLLM_SERVER_DEV_MODE": "1"}
        if engine.devices:
            variables["CUDA_VISIBLE_DEVICES"] = visible(engine.devices, os.environ)
        extra = [
            *("--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"),
            # else each start would draw the same numbers
            *("--seed", str(secrets.randbelow(1 << 31))),
            *engine.arguments,
        ]
        return serve(
            self._folder,
            engine="vllm",
            model_name=MODEL,
            tensor_parallel=max(1, len(engine.devices)),
            max_model_len=self._loaded.positions,
            dtype="float32" if self._recipe.training.precision == "fp32" else "bfloat16",
            extra=extra,
            variables=variables,
            start_timeout=START_SECONDS,
        )

    def _write(self) -> None:
        """Write the weights. A head that is tied to the embeddings is written apart.

        vLLM's CPU build packs the head when it starts, and does not pack a tied one again when it loads new
        weights: it would go on with the old head.
        """
        model, weights = self._loaded.model, self._loaded.model.state_dict()
        for name in model._tied_weights_keys or ():
            if name in weights:
                weights[name] = torch.empty_like(weights[name], device="cpu").copy_(weights[name])
        save_result(model, weights, self._loaded.tokenizer, self._folder)
        config = self._folder / "config.json"
        content = json.loads(config.read_text(encoding="utf-8"))
        for part in (content, content.get("text_config", {})):
            if part.get("tie_word_embeddings"):
                part["tie_word_embeddings"] = False
        config.write_text(json.dumps(content, indent=1), encoding="utf-8")

    def _try_out(self) -> None:
        """Sample a token and load the weights again, before anything depends on it."""
        request = Request([self._loaded.ends[0]], replace(self._loaded.defaults, seed=None), 1)
        self.submit(request)
        try:
            request.done.result()
        except BenchError:
            self.check()  # a server that has ended says why
            raise
        self._reload()

    def _reload(self) -> None:
        try:
            self._portal.call(self._load_weights)
        except BenchError:
            self.check()
            raise

    async def _load_weights(self) -> None:
        await self._post("/pause?mode=abort", "pause")
        await self._post("/collective_rpc", "load new weights", {"method": "reload_weights"})
        await self._post("/resume", "go on with new weights")

    async def _answer(self, request: Request) -> None:
        try:
            if request.constraint is not None:
                raise ApiError("rollouts on vLLM know tool_choice auto and none only, and no strict tools")
            answer = await self._post("/v1/completions", "answer", self._body(request))
            made = self._completion(request, answer)
        except Exception as error:
            if request.done.set_running_or_notify_cancel():
                request.done.set_exception(error)
            return
        if request.done.set_running_or_notify_cancel():
            request.done.set_result(made)

    def _body(self, request: Request) -> dict[str, Any]:
        """Return a request of vLLM's completions API. Nothing in it is left to the server's defaults."""
        sampling = request.sampling
        return {
            "model": MODEL,
            "prompt": request.prompt,
            "max_tokens": request.most_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "min_p": sampling.min_p,
            "repetition_penalty": sampling.repetition_penalty,
            "seed": sampling.seed,
            "stop": list(request.stop),
            "stop_token_ids": sorted(self._ends),
            "logprobs": 0,  # of the sampled tokens only
            "return_token_ids": True,
            "skip_special_tokens": False,  # stop strings are looked for in the text
            "add_special_tokens": False,
        }

    def _completion(self, request: Request, answer: Any) -> Completion:
        """Return an answer as our own engine gives it: the text is made from the tokens here.

        Raises:
            BenchError: it lacks tokens or log-probabilities.
        """
        choice = answer["choices"][0]
        tokens = choice.get("token_ids")
        logprobs = (choice.get("logprobs") or {}).get("token_logprobs")
        if not tokens or not logprobs or len(tokens) != len(logprobs):
            raise BenchError(
                f"vLLM does not return the tokens of its answers with their log-probabilities: {TOO_OLD}"
            )
        cached = ((answer.get("usage") or {}).get("prompt_tokens_details") or {}).get("cached_tokens")
        decoding = Decoding(request, self._loaded.tokenizer, self._hidden, self._ends)
        decoding.cached = cached or 0
        for token, logprob in zip(tokens, logprobs, strict=True):
            decoding.add(Chosen(token, logprob))
            if decoding.finish_reason is not None:
                return decoding.completion()
        raise BenchError(f"vLLM ended an answer early: {choice.get('finish_reason')}")

    async def _post(self, path: str, what: str, body: Any = None) -> Any:
        """Send a request and return the document of its answer, if there is one.

        Raises:
            BenchError: there was none, or it was an error.
        """
        try:
            answer = await self._client.post(path, json=body)
        except httpx2.TransportError as error:
            raise BenchError(f"vLLM does not {what}: {error or type(error).__name__}") from error
        if answer.status_code == 404:
            raise BenchError(f"vLLM cannot {what} (POST {path.partition('?')[0]} is unknown): {TOO_OLD}")
        if answer.status_code != 200:
            said = sanitize_line(answer.text[:SHOWN])
            raise BenchError(f"vLLM does not {what}: status {answer.status_code}: {said}")
        return json.loads(answer.content or b"null")


def visible(devices: tuple[int, ...], environ: Mapping[str, str]) -> str:
    """Return CUDA_VISIBLE_DEVICES for some of the GPUs that this process can see.

    Raises:
        WrongUseError: it cannot see one of them.
    """
    listed = environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return ",".join(map(str, devices))
    names = [name for name in listed.split(",") if name]
    if any(device >= len(names) for device in devices):
        raise WrongUseError(f"rl.engine.devices={list(devices)}: CUDA_VISIBLE_DEVICES names {len(names)}")
    return ",".join(names[device] for device in devices)
