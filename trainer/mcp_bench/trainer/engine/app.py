"""OpenAI's chat API in front of an engine.

https://platform.openai.com/docs/api-reference/chat. A client that disconnects ends its request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.engine.api_answer import Reply, event
from mcp_bench.trainer.engine.api_errors import OVERFLOW, ApiError
from mcp_bench.trainer.engine.api_request import ChatRequest, read_request
from mcp_bench.trainer.engine.constraint import Constraint
from mcp_bench.trainer.engine.conversations import Conversations
from mcp_bench.trainer.engine.load import Loaded
from mcp_bench.trainer.engine.prompt import make_prompt, opens_thought
from mcp_bench.trainer.engine.sampling import Sampling
from mcp_bench.trainer.engine.sequence import Completion, Request

UNLIMITED = 4096
"""The most tokens of an answer, if neither the request nor the model has a limit."""
log = logging.getLogger("uvicorn.error")


def make_app(
    loaded: Loaded, model: str, *, constrain: bool = False, version: Callable[[], str] | None = None
) -> Starlette:
    """Return the app. It starts and stops the engine with itself.

    Args:
        loaded: the checkpoint.
        model: the name that clients use.
        constrain: whether all calls are held to the tools' schemas, also where a request does not ask for it.
        version: serves a policy that is being trained. Every answer has its tokens, their log-probabilities
            under the distribution that was sampled from, and this version of the weights as
            `system_fingerprint`; conversations go on with the tokens that were sampled.
    """
    api = ChatApi(loaded, model, constrain, version)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        with loaded.engine:
            yield

    return Starlette(
        routes=[
            Route("/v1/chat/completions", api.complete, methods=["POST"]),
            Route("/v1/models", api.models),
            Route("/v1/models/{name:path}", api.describe),
            Route("/health", lambda request: Response()),
        ],
        exception_handlers={
            ApiError: _answer_error,
            HTTPException: _answer_error,
            Exception: _answer_error,
        },
        lifespan=lifespan,
    )


class ChatApi:
    """The endpoints."""

    def __init__(
        self, loaded: Loaded, model: str, constrain: bool, version: Callable[[], str] | None
    ) -> None:
        self._loaded, self._model, self._constrain, self._version = loaded, model, constrain, version
        self._conversations = Conversations(loaded)

    async def models(self, request: HttpRequest) -> Response:
        """List the one model."""
        return JSONResponse({"object": "list", "data": [self._description()]})

    async def describe(self, request: HttpRequest) -> Response:
        """Describe a model by its name."""
        self._check_model(request.path_params["name"])
        return JSONResponse(self._description())

    async def complete(self, http: HttpRequest) -> Response:
        """Answer a conversation."""
        asked = read_request(await http.body())
        self._check_model(asked.model)
        tools = asked.callable
        prompt, opened = self._prompt(asked)
        request = self._request(asked, prompt, tools, opened)
        reply = Reply(
            self._loaded, self._model, prompt, tools, opened=opened,
            token_ids=bool(asked.return_token_ids) or self._version is not None,
            version=self._version and self._version(),
        )  # fmt: skip
        if asked.stream:
            usage = asked.stream_options is not None and asked.stream_options.include_usage
            return StreamingResponse(
                self._stream(asked, request, reply, usage), media_type="text/event-stream"
            )
        self._loaded.engine.submit(request)
        await _answered_or_gone(http, request)
        if request.done.cancelled():
            return Response(status_code=499)  # nobody reads it: the client has gone
        made = request.done.result()
        self._remember(asked, made, prompt, reply)
        return JSONResponse(reply.whole(made))

    def _prompt(self, asked: ChatRequest) -> tuple[list[int], bool]:
        known = None if self._version is None else self._conversations.prompt(asked)
        if known is None:
            return make_prompt(self._loaded, asked)
        return known, opens_thought(self._loaded, known)

    def _remember(self, asked: ChatRequest, made: Completion, prompt: list[int], reply: Reply) -> None:
        if self._version is not None:
            self._conversations.add(asked, made, prompt, reply.message(made))

    async def _stream(
        self, asked: ChatRequest, request: Request, reply: Reply, usage: bool
    ) -> AsyncIterator[str]:
        loop = asyncio.get_running_loop()
        texts: asyncio.Queue[str | None] = asyncio.Queue()
        request.on_text = lambda text: _from_thread(loop, texts, text)
        request.done.add_done_callback(lambda _: _from_thread(loop, texts, None))
        self._loaded.engine.submit(request)
        try:
            yield event(reply.begin())
            text: str | None = ""
            while text is not None:
                for chunk in reply.more(text):
                    yield event(chunk)
                text = await texts.get()
                while text is not None and not texts.empty():  # only the newest text matters
                    text = texts.get_nowait()
            self._remember(asked, request.done.result(), request.prompt, reply)
            for chunk in reply.end(request.done.result(), usage=usage):
                yield event(chunk)
        except Exception as error:
            log.exception("a stream failed")
            yield event(ApiError(f"the engine failed: {error}", status=500).document)
        finally:
            request.done.cancel()  # does nothing to a finished one
        yield "data: [DONE]\n\n"

    def _request(
        self, asked: ChatRequest, prompt: list[int], tools: list[dict[str, Any]], opened: bool
    ) -> Request:
        loaded = self._loaded
        most = asked.max_completion_tokens or asked.max_tokens or loaded.most_tokens
        if loaded.positions is not None:
            room = loaded.positions - len(prompt)
            if room <= 0:
                raise ApiError(
                    f"This model's maximum context length is {loaded.positions} tokens, the messages have "
                    f"{len(prompt)}",
                    code=OVERFLOW,
                    param="messages",
                )
            most = min(most or room, room)
        policy = self._version is not None
        logprobs = (asked.top_logprobs or 0) if asked.logprobs or policy else None
        sampling = asked.sampling(Sampling() if policy else loaded.defaults)
        return Request(
            prompt, sampling, most or UNLIMITED, asked.stops, logprobs,
            policy or asked.logprobs_mode == "processed_logprobs", self._constraint(asked, tools, opened),
        )  # fmt: skip

    def _constraint(self, asked: ChatRequest, tools: list[dict[str, Any]], opened: bool) -> Constraint | None:
        if not tools or not (asked.must_call or asked.strict or self._constrain):
            return None
        if self._loaded.grammars is None:
            raise ApiError("this model's tokenizer cannot be constrained: use tool_choice auto or none")
        several = asked.parallel_tool_calls is not False
        try:
            return Constraint(
                self._loaded.grammars, tools, required=asked.must_call, several=several, opened=opened
            )
        except WrongUseError as error:
            raise ApiError(str(error), param="tools") from error

    def _description(self) -> dict[str, Any]:
        return {
            "id": self._model,
            "object": "model",
            "created": 0,
            "owned_by": "mcp-bench",
            "max_model_len": self._loaded.positions,
        }

    def _check_model(self, name: str) -> None:
        if name != self._model:
            message = f"the model {name!r} does not exist: this server has {self._model!r}"
            raise ApiError(message, status=404, code="model_not_found", param="model")


async def _answered_or_gone(http: HttpRequest, request: Request) -> None:
    """Wait until a request is done. Cancel it if its client disconnects first."""
    answer = asyncio.wrap_future(request.done)
    gone = asyncio.create_task(_disconnected(http))
    waiting: set[asyncio.Future[Any]] = {answer, gone}
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if not answer.done():
        request.done.cancel()
        answer.cancel()
    elif not answer.cancelled():
        answer.exception()  # was seen; the caller raises it
    gone.cancel()


async def _disconnected(http: HttpRequest) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        pass


def _from_thread(loop: asyncio.AbstractEventLoop, texts: asyncio.Queue[str | None], text: str | None) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(texts.put_nowait, text)


async def _answer_error(request: HttpRequest, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        where = f"{request.method} {request.url.path}"
        error = ApiError(f"{where}: {error.detail}", status=error.status_code)
    elif not isinstance(error, ApiError):
        error = ApiError(f"the engine failed: {error}", status=500)
    return JSONResponse(error.document, status_code=error.status)
