"""Questions of a world in a worker to its host, on both sides of the socket."""

from __future__ import annotations

import itertools
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import anyio

from mcp_bench.servers.contracts import JSON, ChatMessage, ToolSpec
from mcp_bench.servers.errors import HostError
from mcp_bench.servers.host import Host
from mcp_bench.servers.needs import Role
from mcp_bench.servers.remote.failures import from_wire, to_wire
from mcp_bench.servers.sandbox import (
    OUTPUT_BYTES,
    READ_BYTES,
    Answers,
    CommandResult,
    Enforced,
    FileChange,
    Sandbox,
    SandboxSpec,
)

_request: ContextVar[int | None] = ContextVar("request", default=None)


class Questions:
    """The questions of all worlds of a worker. Each belongs to the request during which it is asked."""

    def __init__(self, send: Callable[[dict[str, JSON]], Awaitable[None]]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._waiting: dict[int, anyio.Event] = {}
        self._answers: dict[int, dict[str, Any]] = {}

    @contextmanager
    def during(self, request: int) -> Iterator[None]:
        """Let questions inside the block belong to a request."""
        before = _request.set(request)
        try:
            yield
        finally:
            _request.reset(before)

    async def put(self, params: dict[str, JSON]) -> Any:
        """Send a question to the parent and return the result.

        Raises:
            HostError: the host has no answer, or no request is running.
        """
        return result_in(await self.answer_to(params))

    async def answer_to(self, params: dict[str, JSON]) -> dict[str, Any]:
        """Send a question to the parent and return the whole answer, which may be an error.

        Raises:
            HostError: no request is running.
        """
        request = _request.get()
        if request is None:
            raise HostError("a world can ask its host only while one of its methods runs")
        number = next(self._numbers)
        self._waiting[number] = anyio.Event()
        try:
            await self._send({"id": request, "ask": number, "params": params})
            await self._waiting[number].wait()
            return self._answers.pop(number)
        finally:
            self._waiting.pop(number, None)

    def settle(self, answer: dict[str, Any]) -> None:
        """Take an answer from the parent. Nobody waits for the answer to a cancelled question."""
        if (waiting := self._waiting.get(answer["ask"])) is not None:
            self._answers[answer["ask"]] = answer
            waiting.set()


def result_in(answer: dict[str, Any]) -> Any:
    """Return the result that the parent has sent, or raise the error."""
    if (error := answer.get("error")) is not None:
        raise from_wire(error["kind"], error["text"])
    return answer["result"]


class WorkerHost:
    """The host of a world in a worker: it passes questions on to the parent's host."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    async def ask(
        self, role: Role, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()
    ) -> ChatMessage:
        """Return what the parent's host answers; see `Host`."""
        answer = await self._questions.put(
            {
                "what": "ask",
                "role": role,
                "messages": [message.model_dump(mode="json") for message in messages],
                "tools": [tool.model_dump(mode="json") for tool in tools],
            }
        )
        return ChatMessage.model_validate(answer)

    async def sandbox(self, spec: SandboxSpec) -> Sandbox:
        """Return a sandbox of the parent; see `Host`."""
        lent = await self._questions.put({"what": "sandbox", "spec": spec.model_dump(mode="json")})
        return WorkerSandbox(self._questions, lent["number"], Enforced.model_validate(lent["enforced"]))


class Lender:
    """What answers the questions of one world: the parent's host, and the sandboxes that it lent."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._sandboxes: list[Sandbox] = []

    async def answer(self, params: dict[str, Any]) -> dict[str, JSON]:
        """Return the answer, or the error, as a message to the worker.

        A sandbox can be over with either.
        """
        try:
            answer: dict[str, JSON] = {"result": await self._found(params)}
        except Exception as error:
            answer = {"error": to_wire(error)}
        if "number" in params:
            answer["over"] = self._sandboxes[params["number"]].over
        return answer

    async def _found(self, params: dict[str, Any]) -> JSON:
        match params["what"]:
            case "ask":
                found = await self._host.ask(
                    params["role"],
                    [ChatMessage.model_validate(message) for message in params["messages"]],
                    [ToolSpec.model_validate(tool) for tool in params["tools"]],
                )
                return found.model_dump(mode="json")
            case "sandbox":
                lent = await self._host.sandbox(SandboxSpec.model_validate(params["spec"]))
                self._sandboxes.append(lent)
                return {"number": len(self._sandboxes) - 1, "enforced": lent.enforced.model_dump(mode="json")}
            case what:
                return await _in_sandbox(self._sandboxes[params["number"]], what, params["arguments"])


async def _in_sandbox(sandbox: Sandbox, what: str, given: dict[str, Any]) -> JSON:
    """Do in a sandbox what a worker asks for. Bytes are in base64."""
    match what:
        case "run":
            done = await sandbox.run(
                given["command"], seconds=given["seconds"], output_bytes=given["output_bytes"]
            )
            return done.model_dump(mode="json")
        case "read":
            return b64encode(await sandbox.read(given["path"], most=given["most"])).decode()
        case "write":
            await sandbox.write(given["path"], b64decode(given["data"]), mode=given["mode"])
        case "changes":
            return [change.model_dump(mode="json") for change in await sandbox.changes()]
        case "start_program":
            return _coded(await sandbox.start(given["argv"], seconds=given["seconds"], alone=given["alone"]))
        case "ask_program":
            questions = [b64decode(question) for question in given["questions"]]
            return _coded(await sandbox.ask(questions, seconds=given["seconds"], most=given["most"]))
        case "renew":
            mounts = {
                folder: {path: b64decode(data) for path, data in files.items()}
                for folder, files in given["mounts"].items()
            }
            await sandbox.renew(mounts, fresh=given["fresh"])
        case "commit":
            await sandbox.commit(keep=given["keep"], trusted=given["trusted"])
        case "halt":
            await sandbox.halt()
    return None


def _coded(answers: Answers) -> JSON:
    return {
        **answers.model_dump(exclude={"bodies"}),
        "bodies": [b64encode(body).decode() for body in answers.bodies],
    }


def _decoded(found: dict[str, Any]) -> Answers:
    return Answers.model_validate({**found, "bodies": [b64decode(body) for body in found["bodies"]]})


class WorkerSandbox:
    """A sandbox of a world in a worker; see `Sandbox`. The parent's one does the work."""

    def __init__(self, questions: Questions, number: int, enforced: Enforced) -> None:
        self.enforced = enforced
        self.over = ""
        self._questions, self._number = questions, number

    async def run(
        self,
        command: str,
        *,
        seconds: float | None = None,
        output_bytes: int = OUTPUT_BYTES,
        progress: Callable[[str], Awaitable[None]] | None = None,
    ) -> CommandResult:
        """Run a command. `progress` gets the whole output at its end."""
        found = CommandResult.model_validate(
            await self._put("run", command=command, seconds=seconds, output_bytes=output_bytes)
        )
        if progress is not None:
            await progress(found.output)
        return found

    async def read(self, path: str, *, most: int = READ_BYTES) -> bytes:
        return b64decode(await self._put("read", path=path, most=most))

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        await self._put("write", path=path, data=b64encode(data).decode(), mode=mode)

    async def changes(self) -> Sequence[FileChange]:
        return [FileChange.model_validate(change) for change in await self._put("changes")]

    async def start(self, argv: Sequence[str], *, seconds: float, alone: bool = True) -> Answers:
        return _decoded(await self._put("start_program", argv=list(argv), seconds=seconds, alone=alone))

    async def ask(self, questions: Sequence[bytes], *, seconds: float, most: int = READ_BYTES) -> Answers:
        coded: list[JSON] = [b64encode(question).decode() for question in questions]
        return _decoded(await self._put("ask_program", questions=coded, seconds=seconds, most=most))

    async def renew(
        self, mounts: Mapping[str, Mapping[str, bytes]] | None = None, *, fresh: bool = False
    ) -> None:
        coded: dict[str, JSON] = {
            folder: {path: b64encode(data).decode() for path, data in files.items()}
            for folder, files in (mounts or {}).items()
        }
        await self._put("renew", mounts=coded, fresh=fresh)

    async def commit(self, *, keep: str = "", trusted: bool = True) -> None:
        await self._put("commit", keep=keep, trusted=trusted)

    async def halt(self) -> None:
        await self._put("halt")

    async def _put(self, what: str, **arguments: JSON) -> Any:
        question: dict[str, JSON] = {"what": what, "number": self._number, "arguments": arguments}
        answer = await self._questions.answer_to(question)
        self.over = answer["over"]
        return result_in(answer)
