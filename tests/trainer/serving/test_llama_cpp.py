"""GGUF files served by llama.cpp: a tiny Llama that has learned one call, and what a request cannot do."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner
from openai import BadRequestError, NotFoundError, OpenAI
from starlette.testclient import TestClient

from mcp_bench.servers.errors import BenchError, MissingDependencyError, WrongUseError
from mcp_bench.trainer.cli.serve_model import serve_model
from mcp_bench.trainer.gguf.write import write_gguf
from mcp_bench.trainer.serving import Server, llama_cpp, serve
from mcp_bench.trainer.serving.llama_cpp_server import application
from tests.support.requirements import needs
from tests.support.training.byte_tokenizers import CHATML
from tests.support.training.tiny_checkpoints import QUESTION, QWEN3_CALL, TOOLS, learn, save
from tests.support.training.tiny_llama import tiny_llama, tiny_llama_folder, tiny_tokenizer

INSTALLED = find_spec("xllamacpp") is not None
pytestmark = pytest.mark.component
served = needs("llama.cpp", INSTALLED, "the package xllamacpp is not installed")

# Like Qwen3's: llama.cpp reads the form of calls off the template, so it must write them as the model does.
TEMPLATE = CHATML.replace(
    "'<tool_call>' + call.function.name + ' ' + (call.function.arguments | tojson) + '</tool_call>'",
    """'<tool_call>\\n{"name": "' + call.function.name + '", "arguments": '"""
    """ + (call.function.arguments | tojson) + '}\\n</tool_call>'""",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCP_BENCH_HOME", str(tmp_path_factory.mktemp("home")))
        folder = tiny_llama_folder(tmp_path_factory.mktemp("model") / "tiny")
        write_gguf(folder, folder.with_suffix(".gguf"), "f32")
        with serve(
            folder.with_suffix(".gguf"), max_model_len=1024, extra=["cpuparams.n_threads=1"]
        ) as started:
            yield started


def client(server: Server) -> OpenAI:
    return OpenAI(base_url=server.base_url, api_key=server.key, max_retries=0)


@pytest.mark.full
@served
def test_a_learned_call_is_parsed(tmp_path: Path) -> None:
    """The greedy answer is the learned one, so llama.cpp computes what transformers trained."""
    tokenizer = tiny_tokenizer(TEMPLATE)
    model = tiny_llama(len(tokenizer))
    learn(model, tokenizer, [(QUESTION, QWEN3_CALL)])
    write_gguf(save(model, tokenizer, tmp_path / "tiny"), tmp_path / "tiny.gguf", "f32")
    with serve(tmp_path / "tiny.gguf", extra=["cpuparams.n_threads=1"]) as server:
        _check_call(server)


def _check_call(server: Server) -> None:
    asked: dict[str, Any] = {"model": "tiny", "messages": QUESTION, "tools": TOOLS}
    (choice,) = client(server).chat.completions.create(**asked).choices
    (call,) = choice.message.tool_calls or []
    assert choice.finish_reason == "tool_calls"
    assert call.type == "function" and call.function.name == "find"
    assert json.loads(call.function.arguments) == {"name": "Ada"}
    parts = [part.choices[0].delta for part in client(server).chat.completions.create(**asked, stream=True)]
    streamed = [call.function for part in parts for call in part.tool_calls or []]
    assert "".join(call.arguments or "" for call in streamed if call) == call.function.arguments


@served
def test_only_the_key_opens_any_path(server: Server) -> None:
    where = server.base_url.removeprefix("http://").removesuffix("/v1")
    for path in ("/", "/health", "/v1/health", "/v1/models", "/v1/chat/completions", "/props"):
        for headers in ({}, {"Authorization": "Bearer guess"}):
            wire = http.client.HTTPConnection(where, timeout=60)
            wire.request("GET", path, headers=headers)
            assert wire.getresponse().status == 401, path
            wire.close()
    command = Path(f"/proc/{server.pid}/cmdline").read_bytes()
    assert server.key.encode() not in command


@served
def test_wrong_requests_are_refused(server: Server) -> None:
    say: Any = client(server).chat.completions.create
    with pytest.raises(NotFoundError, match="no model 'other'"):
        say(model="other", messages=QUESTION)
    with pytest.raises(BadRequestError, match="messages"):
        say(model="tiny", messages="hello")
    with pytest.raises(BadRequestError, match="context size"):
        say(model="tiny", messages=[{"role": "user", "content": "long " * 1000}])


@served
def test_abandoned_requests_leave_room_for_others(tmp_path: Path) -> None:
    """Each of them would take all of the server's tokens, which is minutes of work."""
    folder = tiny_llama_folder(tmp_path / "tiny", max_position_embeddings=400_000)
    write_gguf(folder, tmp_path / "tiny.gguf", "f32")
    asked = {"model": "tiny", "messages": QUESTION, "ignore_eos": True}
    with serve(tmp_path / "tiny.gguf", max_model_len=400_000, extra=["cpuparams.n_threads=1"]) as server:
        where = server.base_url.removeprefix("http://").removesuffix("/v1")

        def ask(**more: Any) -> http.client.HTTPConnection:
            wire = http.client.HTTPConnection(where, timeout=60)
            headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}
            wire.request("POST", "/v1/chat/completions", json.dumps(asked | more), headers)
            return wire

        for number in range(8):
            wire = ask(stream=number == 0)
            if number == 0:
                wire.getresponse().read(1)  # the stream has begun
            client(server).models.list()  # the request before this one has been read
            wire.close()
        wire = ask(max_tokens=2)
        (choice,) = json.loads(wire.getresponse().read())["choices"]
        wire.close()
    assert choice["finish_reason"] == "length"


@served
def application_of(llama: Callable[[httpx2.Request], httpx2.Response]) -> TestClient:
    """Return a client of our application. In place of llama.cpp, a function answers."""
    model = httpx2.AsyncClient(base_url="http://llama", transport=httpx2.MockTransport(llama))
    return TestClient(application(model, "tiny"))


def test_a_stream_is_divided_at_line_breaks_only() -> None:
    """llama.cpp writes the separators of Unicode as they are."""
    said = "one\u2028two\u2029three\x85four"
    event = json.dumps({"choices": [{"delta": {"content": said}}]}, ensure_ascii=False)

    def llama(_: httpx2.Request) -> httpx2.Response:
        content = f"data: {event}\n\ndata: [DONE]\n\n".encode()
        return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, content=content)

    answer = application_of(llama).post("/v1/chat/completions", json={"messages": [], "stream": True})
    first, last = answer.content.decode().removesuffix("\n\n").split("\n\n")
    assert json.loads(first.removeprefix("data: "))["choices"][0]["delta"]["content"] == said
    assert last == "data: [DONE]"


@pytest.mark.parametrize("body", [b'{"messages": ["\\ud83d"]}', b'{"top_p": NaN}', b'{"messages": []}'])
def test_a_request_reaches_llama_cpp_as_it_is(body: bytes) -> None:
    """Not all that can be read can be written again."""
    got: list[bytes] = []

    def llama(request: httpx2.Request) -> httpx2.Response:
        got.append(request.content)
        return httpx2.Response(400, json={"error": {"message": "no"}})

    answer = application_of(llama).post("/v1/chat/completions", content=body)
    assert (answer.status_code, answer.json(), got) == (400, {"error": {"message": "no"}}, [body])


def test_a_request_that_is_nested_too_deeply_is_refused() -> None:
    def llama(_: httpx2.Request) -> httpx2.Response:
        raise AssertionError

    answer = application_of(llama).post("/v1/chat/completions", content=b"[" * 200_000)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")


def test_an_unknown_parameter_is_named(tmp_path: Path) -> None:
    folder = tiny_llama_folder(tmp_path / "tiny")
    write_gguf(folder, tmp_path / "tiny.gguf")
    result = CliRunner().invoke(serve_model, [str(tmp_path / "tiny.gguf"), "--", "n_gpu_layer=9"])
    assert isinstance(result.exception, BenchError)
    assert "llama.cpp has no parameter 'n_gpu_layer'" in str(result.exception)


def test_engine_and_file_must_fit_together(tmp_path: Path) -> None:
    file = tmp_path / "a.gguf"
    assert llama_cpp.engine_for(file, "auto") == "llama.cpp"
    assert llama_cpp.engine_for(tmp_path, "auto") == "auto"
    with pytest.raises(WrongUseError, match=r"which the engine llama\.cpp serves, not vllm"):
        llama_cpp.engine_for(file, "vllm")
    with pytest.raises(WrongUseError, match="mcp-bench export-model"):
        llama_cpp.engine_for(tmp_path, "llama.cpp")
    with pytest.raises(WrongUseError, match="NAME=VALUE"):
        llama_cpp.command(file, "127.0.0.1", 1, "m", None, ("--flag",))


def test_a_file_without_a_template_is_refused(tmp_path: Path) -> None:
    folder = tiny_llama_folder(tmp_path / "tiny")
    tiny_tokenizer(None).save_pretrained(folder)
    (folder / "chat_template.jinja").unlink()
    write_gguf(folder, tmp_path / "tiny.gguf")
    with pytest.raises(WrongUseError, match="has no chat template"):
        llama_cpp.read_file(tmp_path / "tiny.gguf")
    with pytest.raises(WrongUseError, match="no file"):
        llama_cpp.read_file(tmp_path / "none.gguf")


@pytest.mark.skipif(INSTALLED, reason="xllamacpp is installed")
def test_a_missing_engine_names_its_package(tmp_path: Path) -> None:
    with pytest.raises(MissingDependencyError, match=r"mcp-bench-trainer\[llama-cpp\]"):
        llama_cpp.check_installed()
