"""Three model APIs in front of an engine: OpenAI's Chat Completions and Responses, Anthropic's Messages.

All of them are read as requests of the chat API, and answered in their own form. A client that disconnects
ends its request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.engine.api.chat_answer import Reply
from mcp_bench.trainer.engine.api.chat_request import ChatRequest, read_request
from mcp_bench.trainer.engine.api.errors import OVERFLOW, ApiError
from mcp_bench.trainer.engine.api.messages_answer import MessagesReply
from mcp_bench.trainer.engine.api.messages_request import read_messages
from mcp_bench.trainer.engine.api.responses_answer import ResponsesReply
from mcp_bench.trainer.engine.api.responses_request import read_responses
from mcp_bench.trainer.engine.constraint import Constraint
from mcp_bench.trainer.engine.conversations import Conversations
from mcp_bench.trainer.engine.load import Loaded
from mcp_bench.trainer.engine.prompt import make_prompt, opens_thought
from mcp_bench.trainer.engine.sampling import Sampling
from mcp_bench.trainer.engine.sequence import Completion, Request

UNLIMITED = 4096
"""The most tokens of an answer, if neither the request nor the model has a limit."""
log = logging.getLogger("uvicorn.error")


@dataclass(frozen=True)
class Dialect:
    """A model API."""

    path: str
    read: Callable[[bytes], ChatRequest]
    reply: type[Reply]


DIALECTS = (
    Dialect("/v1/chat/completions", read_request, Reply),
    Dialect("/v1/responses", read_responses, ResponsesReply),
    Dialect("/v1/messages", read_messages, MessagesReply),
)


@dataclass
class Policy:
    """A model that is being trained.

    Each of its answers has its tokens, their log-probabilities at the temperature and after `min_p` (without
    a grammar, where there is one), and the version of the weights as `system_fingerprint`. Conversations go
    on with the tokens that were sampled. The part of the path before `/v1` names the episode.
    """

    version: Callable[[], str]
    """Returns the version of the weights."""
    temperature: float | None = None
    """Replaces what a request asks for."""
    min_p: float = 0.0
    """Tokens that are less than this fraction as likely as the most likely one are not sampled."""
    most_tokens: int | None = None
    """Limit of each answer, besides the request's own."""
    constrain: bool = False
    """Whether calls are held to the tools' schemas."""


def make_app(
    loaded: Loaded, model: str, *, constrain: bool = False, policy: Policy | None = None
) -> Starlette:
    """Return the app. It starts and stops the engine with itself.

    Args:
        loaded: the checkpoint.
        model: the name that clients use.
        constrain: whether all calls are held to the tools' schemas, also where a request does not ask for it.
        policy: how to serve a model that is being trained.
    """
    api = ModelApi(loaded, model, constrain, policy)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        with loaded.engine:
            yield

    roots = [""] if policy is None else ["", "/{episode}"]
    routes = [
        Route(root + dialect.path, partial(api.complete, dialect), methods=["POST"])
        for root in roots
        for dialect in DIALECTS
    ]
    for root in roots:
        routes += [
            Route(f"{root}/v1/messages/count_tokens", api.count, methods=["POST"]),
            Route(f"{root}/v1/models", api.models),
            Route(f"{root}/v1/models/{{name:path}}", api.describe),
        ]
    handlers = dict.fromkeys((ApiError, HTTPException, Exception), _answer_error)
    return Starlette(
        routes=[*routes, Route("/health", lambda request: Response())],
        exception_handlers=handlers,
        lifespan=lifespan,
    )


class ModelApi:
    """The endpoints."""

    def __init__(self, loaded: Loaded, model: str, constrain: bool, policy: Policy | None) -> None:
        self._loaded, self._model, self._constrain, self._policy = loaded, model, constrain, policy
        self._conversations = Conversations(loaded)

    async def models(self, request: HttpRequest) -> Response:
        """List the one model."""
        return JSONResponse({"object": "list", "data": [self._description()]})

    async def describe(self, request: HttpRequest) -> Response:
        """Describe a model by its name."""
        self._check_model(request.path_params["name"])
        return JSONResponse(self._description())

    async def count(self, http: HttpRequest) -> Response:
        """Count the tokens of a prompt, for the Messages API."""
        prompt, _ = make_prompt(self._loaded, read_messages(await http.body()))
        return JSONResponse({"input_tokens": len(prompt)})

    async def complete(self, dialect: Dialect, http: HttpRequest) -> Response:
        """Answer a conversation."""
        asked = dialect.read(await http.body())
        episode = str(http.path_params.get("episode", ""))
        self._check_model(asked.model)
        policy = self._policy
        prompt, opened = self._prompt(asked, episode)
        request = self._request(asked, prompt, opened)
        reply = dialect.reply(
            self._loaded,
            asked,
            prompt,
            opened=opened,
            token_ids=bool(asked.return_token_ids) or policy is not None,
            version=None if policy is None else policy.version(),
        )
        if asked.stream:
            streamed = self._stream(asked, episode, request, reply)
            return StreamingResponse(streamed, media_type="text/event-stream")
        self._loaded.engine.submit(request)
        await _answered_or_gone(http, request)
        if request.done.cancelled():
            return Response(status_code=499)  # nobody reads it: the client has gone
        made = request.done.result()
        self._remember(asked, episode, made, prompt, reply)
        return JSONResponse(reply.whole(made))

    def _prompt(self, asked: ChatRequest, episode: str) -> tuple[list[int], bool]:
        known = None if self._policy is None else self._conversations.prompt(asked, episode)
        if known is None:
            return make_prompt(self._loaded, asked)
        return known, opens_thought(self._loaded, known)

    def _remember(
        self, asked: ChatRequest, episode: str, made: Completion, prompt: list[int], reply: Reply
    ) -> None:
        if self._policy is not None:
            self._conversations.add(asked, episode, made, prompt, reply.message(made))

    async def _stream(
        self, asked: ChatRequest, episode: str, request: Request, reply: Reply
    ) -> AsyncIterator[str]:
        loop = asyncio.get_running_loop()
        texts: asyncio.Queue[str | None] = asyncio.Queue()
        request.on_text = lambda text: _from_thread(loop, texts, text)
        request.done.add_done_callback(lambda _: _from_thread(loop, texts, None))
        self._loaded.engine.submit(request)
        try:
            for document in reply.begin():
                yield reply.event(document)
            text: str | None = ""
            while text is not None:
                for document in reply.more(text):
                    yield reply.event(document)
                text = await texts.get()
                while text is not None and not texts.empty():  # only the newest text matters
                    text = texts.get_nowait()
            made = request.done.result()
            self._remember(asked, episode, made, request.prompt, reply)
            for document in reply.end(made):
                yield reply.event(document)
        except ApiError as error:  # what a whole answer has status 400 for
            yield reply.event({"type": "error", **reply.error(error)})
        except Exception as error:
            log.exception("a stream failed")
            failed = ApiError(f"the engine failed: {error}", status=500)
            yield reply.event({"type": "error", **reply.error(failed)})
            raise  # the response breaks off: else the referee would take it for an answer
        finally:
            request.done.cancel()  # does nothing to a finished one
        yield reply.last

    def _request(self, asked: ChatRequest, prompt: list[int], opened: bool) -> Request:
        loaded, policy = self._loaded, self._policy
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
        if policy is not None and policy.most_tokens is not None:
            most = min(most or policy.most_tokens, policy.most_tokens)
        if policy is not None and policy.temperature is not None:
            # nothing of what an agent asks for may cut the distribution that the trainer learns from
            sampling = Sampling(temperature=policy.temperature, min_p=policy.min_p)
        else:
            sampling = asked.sampling(loaded.defaults if policy is None else Sampling())
        logprobs = (asked.top_logprobs or 0) if asked.logprobs or policy is not None else None
        return Request(
            prompt,
            sampling,
            most or UNLIMITED,
            asked.stops,
            logprobs,
            asked.logprobs_mode if policy is None else "policy_logprobs",
            self._constraint(asked, opened),
        )

    def _constraint(self, asked: ChatRequest, opened: bool) -> Constraint | None:
        tools = asked.callable
        rule = self._constrain or (self._policy is not None and self._policy.constrain)
        if not tools or not (asked.must_call or asked.strict or rule):
            return None
        if self._loaded.grammars is None:
            raise ApiError("this model's tokenizer cannot be constrained: use tool_choice auto or none")
        try:
            return Constraint(
                self._loaded.grammars, tools, required=asked.must_call, several=asked.several, opened=opened
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
        # what stands before /v1 is the episode of a policy's request: it is none of the agent's business
        *_, path = request.url.path.rpartition("/v1")
        where = f"{request.method} /v1{path}" if "/v1" in request.url.path else request.method
        error = ApiError(f"{where}: {error.detail}", status=error.status_code)
    elif not isinstance(error, ApiError):
        error = ApiError(f"the engine failed: {error}", status=500)
    form = MessagesReply if "/v1/messages" in request.url.path else Reply
    return JSONResponse(form.error(error), status_code=error.status)
