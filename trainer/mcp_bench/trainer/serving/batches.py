"""Generate the answers to waiting requests in batches. Runs inside the engine's process.

`transformers serve` generates one answer at a time. For a small model nearly all of that time is spent in
Python, so a batch of eight costs little more than a single answer. The engine's continuous batching (paged
attention) applies the first request's sampling settings to all requests and does not support linear
attention. This module therefore uses plain batches, padded on the left.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from fastapi import HTTPException

Sequential: Any = import_module("transformers.cli.serving.utils").GenerateManager

BATCH = 16
"""Maximum batch size."""


@dataclass(eq=False)
class Waiting:
    """A waiting request: its prompt, shape (1, tokens), its settings, and the callback for its result."""

    inputs: dict[str, Any]
    settings: Any
    new_tokens: int
    done: Callable[[torch.Tensor | BaseException], None]

    @property
    def prompt(self) -> int:
        return int(self.inputs["input_ids"].shape[-1])

    @property
    def kind(self) -> str:
        """Key that all requests of a batch share: their generation settings."""
        return str(self.settings.to_json_string(use_diff=False))


class BatchingManager(Sequential):  # type: ignore[misc]
    """Batches the waiting requests when the model is free. Streaming requests run one by one, in order."""

    max_length: int | None = None
    """Maximum tokens of prompt and answer, if the user set one. Default: the model's positions."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[Waiting] = []
        self._lock = threading.Lock()

    async def generate_non_streaming(
        self, model: Any, processor: Any, inputs: Any, gen_config: Any, request_id: str
    ) -> tuple[str, int, torch.Tensor]:
        """Return the answer's text, the prompt's length, and the answer's tokens."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[torch.Tensor] = loop.create_future()

        def settle(result: torch.Tensor | BaseException) -> None:
            if future.done():
                return
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)

        def done(result: torch.Tensor | BaseException) -> None:
            loop.call_soon_threadsafe(settle, result)

        one = Waiting(dict(inputs), gen_config, self.room(model, inputs, gen_config), done)
        with self._lock:
            self._waiting.append(one)
        self.submit(self._next_batch, model, processor)
        answer = await future
        return processor.decode(answer, skip_special_tokens=True), one.prompt, answer

    def generate_streaming(
        self, model: Any, processor: Any, inputs: Any, gen_config: Any, request_id: str,
        response_parser: Any = None,
    ) -> Any:  # fmt: skip
        gen_config.max_new_tokens = self.room(model, inputs, gen_config)
        return super().generate_streaming(model, processor, inputs, gen_config, request_id, response_parser)

    def room(self, model: Any, inputs: Any, settings: Any) -> int:
        """Return the maximum number of tokens for the answer.

        Raises:
            HTTPException: the prompt leaves no room (status 400).
        """
        text = model.config.get_text_config()
        positions = self.max_length or getattr(text, "max_position_embeddings", None)
        prompt = int(inputs["input_ids"].shape[-1])
        if positions is None:
            return int(settings.max_new_tokens)
        if prompt >= positions:
            message = f"This model's maximum context length is {positions} tokens, the messages have {prompt}"
            raise HTTPException(status_code=400, detail=message)
        return min(int(settings.max_new_tokens), positions - prompt)

    def _next_batch(self, model: Any, processor: Any) -> None:
        """Generate the next batch. Runs in the inference thread once per request.

        Does nothing if an earlier batch included the request.
        """
        with self._lock:
            if not self._waiting:
                return
            kind = self._waiting[0].kind
            batch = [one for one in self._waiting if one.kind == kind][:BATCH]
            self._waiting = [one for one in self._waiting if one not in batch]
            if self._waiting:
                self.submit(self._next_batch, model, processor)
        try:
            for one, answer in zip(batch, _generate(model, processor, batch), strict=True):
                one.done(answer)
        except BaseException as error:
            for one in batch:
                one.done(error)


def _generate(model: Any, processor: Any, batch: list[Waiting]) -> list[torch.Tensor]:
    """Return the new tokens of each answer, including its end token."""
    settings = batch[0].settings
    settings.max_new_tokens = max(one.new_tokens for one in batch)
    if len(batch) == 1:
        inputs = batch[0].inputs
        widest = batch[0].prompt
    else:
        ids = [one.inputs["input_ids"][0] for one in batch]
        tokenizer = getattr(processor, "tokenizer", processor)
        filler = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        widest = max(one.prompt for one in batch)
        device = ids[0].device
        padded = torch.full((len(ids), widest), filler, dtype=ids[0].dtype, device=device)
        mask = torch.zeros_like(padded)
        for row, tokens in enumerate(ids):
            padded[row, widest - len(tokens) :] = tokens
            mask[row, widest - len(tokens) :] = 1
        inputs = {"input_ids": padded, "attention_mask": mask}
    made = model.generate(**inputs, generation_config=settings, tokenizer=processor)
    ends = settings.eos_token_id if isinstance(settings.eos_token_id, list) else [settings.eos_token_id]
    return [_trimmed(row[widest:], one.new_tokens, ends) for row, one in zip(made, batch, strict=True)]


def _trimmed(answer: torch.Tensor, most: int, ends: list[int | None]) -> torch.Tensor:
    answer = answer[:most]
    for at, token in enumerate(answer.tolist()):
        if token in ends:
            return answer[: at + 1]
    return answer
