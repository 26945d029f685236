"""What the look at a model endpoint refuses, and what it leaves to the agent."""

from __future__ import annotations

import socket
from contextlib import closing
from typing import Any

import pytest

from mcp_bench.bridge.model_endpoint.look import EndpointDownError, ModelEndpoint, endpoint_of, look
from mcp_bench.plugins.acp.agent import Acp
from mcp_bench.plugins.gemini.agent import Gemini
from mcp_bench.plugins.needs import LoginMissingError, ModelApi
from mcp_bench.plugins.opencode.agent import OpenCode
from mcp_bench.plugins.own_clients.chat import Chat
from mcp_bench.servers.errors import WrongUseError
from tests.support.http.model_api import Answer, listed, refused
from tests.support.http.model_api import ModelApi as Api

pytestmark = pytest.mark.component

KEY = "dummy-key-0123456789"
LIST, CHAT = "GET /v1/models", "POST /v1/chat/completions"
WRONG_KEY = refused(401, f"Incorrect API key provided: {KEY}")
NO_MODEL = refused(404, "The model `modle` does not exist.")
ONE_TOKEN: Answer = (200, {"choices": []})


def ask(api: Api, kind: ModelApi | None = "chat-completions", model: str | None = "model", **more) -> None:
    base = "" if kind in ("anthropic-messages", "gemini") else "/v1"
    facts = {"key": KEY, "key_names": ("OPENAI_API_KEY",), **more}
    look(ModelEndpoint("chat", api.url + base, kind, model=model, **facts))


@pytest.mark.parametrize(
    "answers",
    [
        {LIST: listed("model", "other")},
        {LIST: listed()},  # says nothing
        {LIST: (200, ["odd"])},
        {LIST: refused(404, "no such page")},
        {LIST: refused(403, "Missing scopes: api.model.read")},
        {LIST: refused(429, "slow down")},
        {LIST: refused(500, "broken")},
        {LIST: None},
    ],
)
def test_a_healthy_endpoint_gets_one_request_for_nothing(answers: dict[str, Answer | None]) -> None:
    with Api(answers) as api:
        ask(api)
    assert api.requests == ["GET /v1/models"]
    assert api.keys == [KEY]


@pytest.mark.parametrize(
    "answers",
    [
        {LIST: listed("other"), CHAT: ONE_TOKEN},  # an alias
        {LIST: refused(401, "Missing scopes: api.model.read"), CHAT: ONE_TOKEN},
        {LIST: listed("other"), CHAT: refused(400, "Unsupported parameter: max_tokens")},
        {LIST: listed("other"), CHAT: refused(503, "loading")},
        {LIST: listed("other"), CHAT: None},
        {LIST: WRONG_KEY, CHAT: NO_MODEL},
    ],
)
def test_doubts_are_settled_by_one_token(answers: dict[str, Answer | None]) -> None:
    with Api(answers) as api:
        ask(api)
    assert api.requests == [LIST, CHAT]
    assert api.bodies[1] == {
        "model": "model",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 1,
    }


@pytest.mark.parametrize(
    ("kind", "path", "post", "names"),
    [
        ("chat-completions", "GET /v1/models", CHAT, listed("model", "other")),
        ("responses", "GET /v1/models", "POST /v1/responses", listed("model", "other")),
        ("anthropic-messages", "GET /v1/models", "POST /v1/messages", listed("model", "other")),
        (
            "gemini", "GET /v1beta/models", "POST /v1beta/models/modle:generateContent",
            (200, {"models": [{"name": "models/model"}, {"name": "models/other"}]}),
        ),
    ],
)  # fmt: skip
def test_wrong_keys_and_models_in_every_api(kind: ModelApi, path: str, post: str, names: Answer) -> None:
    with Api({path: names, post: NO_MODEL}) as api:
        with pytest.raises(WrongUseError) as unknown:
            ask(api, kind, "modle")
        assert "has no model 'modle' (did you mean model?)" in str(unknown.value)
        assert "--model" in str(unknown.value) and "Nothing was recorded" in str(unknown.value)
        api.answers = {path: WRONG_KEY, post: WRONG_KEY}
        with pytest.raises(LoginMissingError) as missing:
            ask(api, kind, "modle")
        assert set(api.keys) == {KEY}
    text = str(missing.value)
    assert text.startswith("login_missing: the model endpoint") and "refuses the key" in text
    assert "HTTP 401: Incorrect API key provided: ***" in text and KEY not in text
    assert "Set OPENAI_API_KEY to a key of this endpoint" in text


def test_a_long_message_shows_no_part_of_the_key() -> None:
    long = refused(401, f"{'x ' * 146}{KEY}")
    with Api({LIST: long}) as api, pytest.raises(LoginMissingError) as missing:
        ask(api, model=None)
    assert KEY[:5] not in str(missing.value) and "x ***" in str(missing.value)


@pytest.mark.parametrize(
    ("agent", "options", "environ", "names"),
    [
        (OpenCode(), {}, {}, ("OPENAI_API_KEY",)),
        (Gemini(), {}, {}, ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
        (Chat(), {}, {}, ("OPENAI_API_KEY",)),
        (Chat(), {"provider": "anthropic"}, {}, ("ANTHROPIC_API_KEY",)),
        (Chat(), {}, {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}, ("ANTHROPIC_API_KEY",)),
    ],
)
def test_only_keys_for_this_endpoint_are_named(
    agent: Any, options: dict[str, str], environ: dict[str, str], names: tuple[str, ...]
) -> None:
    url = environ.get("ANTHROPIC_BASE_URL", "http://127.0.0.1:1/v1")
    endpoint = endpoint_of(agent, url, options, environ, {}, "model", native=False)
    assert endpoint is not None and endpoint.key_names == names


def test_without_a_model_the_list_decides_on_the_key() -> None:
    with Api({LIST: WRONG_KEY}) as api:
        with pytest.raises(LoginMissingError):
            ask(api, model=None)
        with pytest.raises(LoginMissingError, match="wants a key"):
            ask(api, model=None, key="none")
        api.answers = {LIST: listed("other")}
        ask(api, model=None)


def test_without_a_known_key_only_the_address_counts() -> None:
    with Api({LIST: WRONG_KEY}) as api:
        ask(api, key=None)
        ask(api, None)
        look(ModelEndpoint("chat", api.url.replace("//", "//user:secret@"), "chat-completions", KEY))
        assert api.requests == ["GET /v1", "GET /v1", "GET /"] and api.keys == [None] * 3


def test_an_address_where_nothing_listens() -> None:
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        for kind in ("chat-completions", None):
            with pytest.raises(EndpointDownError) as down:
                look(ModelEndpoint("acp:kimi", url, kind, KEY))
            assert f"{url} cannot be reached: " in str(down.value) and "refused" in str(down.value)
            assert f"mcp-bench doctor acp --base-url {url}" in str(down.value)


def test_the_advice_about_an_agent_over_acp_can_be_typed() -> None:
    options = {"command": "kimi acp"}
    agent = Acp().for_options(options)
    endpoint = endpoint_of(agent, "http://127.0.0.1:1/v1", options, {}, {}, None, native=False)
    assert endpoint is not None
    with pytest.raises(EndpointDownError, match="mcp-bench doctor acp --agent-command 'kimi acp' --base-url"):
        look(endpoint)
