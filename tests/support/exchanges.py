"""Capture what an agent sends to its model, as the model proxy does."""

from __future__ import annotations

import json
from typing import Any

from anyio.from_thread import start_blocking_portal

from mcp_bench.recorder.records import new_id
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.store.model_calls import ModelRequest, ModelResponse, settle
from mcp_bench.recorder.store.model_calls import begin as begin_call


def exchange(folder: RunFolder, episode: str, body: dict[str, Any], answer: bytes, **rest: Any) -> str:
    """Capture one exchange with a Chat Completions endpoint."""
    request = ModelRequest(
        new_id("mc"), episode, 1_000_000, "POST", rest.pop("path", "/v1/chat/completions"), {}, json.dumps(body).encode()
    )  # fmt: skip
    facts = {"first_us": 1_500_000, "ended_us": 2_000_000, "status": 200, "ending": "complete", **rest}
    response = ModelResponse(headers={"content-type": "application/json"}, body=answer, **facts)

    async def store() -> None:
        await begin_call(folder.recording.writer, request)
        await settle(folder.recording.writer, request, response)

    with start_blocking_portal() as portal:  # the caller may have an event loop
        portal.call(store)
    return request.id


def completion(message: dict[str, Any], **choice: Any) -> bytes:
    usage = {"prompt_tokens": 100, "completion_tokens": 20}
    choices = [{"message": message, "finish_reason": "stop", **choice}]
    return json.dumps(
        {"model": "m-1", "choices": choices, "usage": usage, "prompt_token_ids": [1, 2]}
    ).encode()
