"""OpenTelemetry spans of a recording: one for each episode, with a child span for each call.

Telemetry is off unless an OTLP endpoint is set. Then the standard variables apply (`OTEL_EXPORTER_OTLP_*`,
`OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`, `OTEL_BSP_*` ...). Names and values follow the conventions for MCP
spans and tool execution:
https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md
Observers never receive grades, so no span contains one.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

from mcp_bench.servers.errors import MissingDependencyError
from mcp_bench.servers.extras import install_extra

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

    from mcp_bench.recorder.frames.body import Body
    from mcp_bench.recorder.frames.jsonrpc import Frame
    from mcp_bench.recorder.records import EpisodeEnd, EpisodeStart, RunInfo
    from mcp_bench.recorder.store.observers import CallEnd, CallStart, Observer, Transport

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
PROPAGATED = ("traceparent", "tracestate")
CLOSE_SECONDS = 3.0
"""Time limit at the end of a run for sending the remaining spans."""

Connection = tuple[str | None, int]
T = TypeVar("T")
logger = logging.getLogger(__name__)


def from_environment(environ: Mapping[str, str] = os.environ) -> Observer | None:
    """Return an observer that sends spans, or None if no endpoint is set.

    Raises:
        MissingDependencyError: an endpoint is set, but OpenTelemetry is not installed.
    """
    endpoint = next((environ[name] for name in ENDPOINTS if environ.get(name)), None)
    disabled = environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if endpoint is None or disabled or environ.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    try:
        tracer, shut = open_tracer(endpoint)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"cannot send telemetry to {endpoint}: the Python package {error.name!r} is not installed. "
            f"Type {install_extra('otel')}, or unset OTEL_EXPORTER_OTLP_ENDPOINT"
        ) from error
    # "true" is an older value; "event_only" and "no_content" keep content out of spans
    capture = environ.get(CAPTURE, "").lower() in ("true", "span_only", "span_and_event")
    return Telemetry(tracer, shut, capture=capture)


def open_tracer(endpoint: str) -> tuple[Tracer, Callable[[], None]]:
    """Return a tracer that exports from a background thread, and the function that shuts it down."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    logging.getLogger("opentelemetry").setLevel(logging.ERROR)  # do not log every retry
    release = version("mcp-bench-kit")
    ours = {"service.name": "mcp-bench", "service.version": release}
    resource = Resource.create({**ours, **OTELResourceDetector().detect().attributes})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))

    def shut() -> None:
        # the provider's shutdown can wait half a minute for an endpoint that does not answer
        ending = threading.Thread(target=provider.shutdown, daemon=True)
        ending.start()
        ending.join(CLOSE_SECONDS)
        if ending.is_alive():
            logger.warning("%s did not accept the last spans within %.0f s", endpoint, CLOSE_SECONDS)

    return provider.get_tracer("mcp-bench", release), shut


class Telemetry:
    """The observer of one recording."""

    def __init__(self, tracer: Tracer, shut: Callable[[], None], *, capture: bool) -> None:
        self._tracer = tracer
        self._shut = shut
        self._capture = capture
        self._episodes: dict[str, Span] = {}
        self._calls: dict[int, Span] = {}
        self._handshakes: dict[Connection, str | None] = {}
        self._versions: dict[Connection, str] = {}
        self._transports: dict[Connection, tuple[Transport, str | None]] = {}

    def episode_begun(self, run: RunInfo, start: EpisodeStart) -> None:
        from opentelemetry.context import Context

        agent = start.agent or run.agent
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": agent,
            "gen_ai.agent.version": start.agent_version or run.agent_version,
            "gen_ai.request.model": run.model,
            "mcp_bench.run": run.id,
            "mcp_bench.episode": start.id,
            "mcp_bench.benchmark": run.benchmark,
            "mcp_bench.task": start.task,
            "mcp_bench.attempt": start.attempt,
        }
        self._episodes[start.id] = self._tracer.start_span(
            f"invoke_agent {agent}",
            context=Context(),
            attributes={name: value for name, value in attributes.items() if value is not None},
            start_time=start.started_us * 1000,
        )

    def episode_ended(self, episode: str, end: EpisodeEnd) -> None:
        span = self._episodes.pop(episode, None)
        for known in (self._handshakes, self._versions, self._transports):
            for key in [key for key in known if key[0] == episode]:
                del known[key]
        if span is None:  # it started in another process
            return
        usage = end.usage.model_dump(include={"input_tokens", "output_tokens"}) if end.usage else {}
        attributes = {
            "gen_ai.response.model": end.model,
            "mcp_bench.termination": end.termination,
            **{f"gen_ai.usage.{name}": tokens for name, tokens in usage.items()},
        }
        span.set_attributes({name: value for name, value in attributes.items() if value is not None})
        if end.invalid is not None:
            fail(span, end.invalid, end.invalid_detail)
        span.end(end.ended_us * 1000)

    def connected(
        self, episode: str | None, connection: int, transport: Transport, session: str | None
    ) -> None:
        self._transports[episode, connection] = (transport, session)

    def frame_added(self, episode: str | None, connection: int, frame: Frame, body: Body) -> None:
        key = (episode, connection)
        if frame.method == "initialize":
            self._handshakes[key] = frame.rpc_id
            return
        requested = (
            key if key in self._handshakes else (None, connection)
        )  # before the session had an episode
        if frame.kind == "response" and self._handshakes.get(requested) == frame.rpc_id is not None:
            del self._handshakes[requested]
            for message in messages(body):
                protocol = member(message, "result").get("protocolVersion")
                if isinstance(protocol, str):
                    self._versions[key] = protocol

    def call_opened(self, call: CallStart) -> None:
        from opentelemetry.trace import Link, SpanKind, set_span_in_context

        meta = member(member(answering(call.request, call.rpc_id), "params"), "_meta")
        transport, session = self._of(self._transports, call) or ("pipe", None)
        attributes = {
            "mcp.method.name": "tools/call",
            "mcp.protocol.version": text(meta.get(VERSION_KEY)) or self._of(self._versions, call),
            "mcp.session.id": session,
            "jsonrpc.request.id": plain_id(call.rpc_id),
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.tool,
            "gen_ai.tool.call.arguments": call.arguments if self._capture else None,
            "network.transport": transport,
            "mcp_bench.episode": call.episode,
        }
        episode = self._episodes.get(call.episode)
        parent, links = caller(meta), []
        if parent is not None and episode is not None:
            links = [Link(episode.get_span_context())]
        elif episode is not None:
            parent = set_span_in_context(episode)
        span = self._tracer.start_span(
            f"tools/call {call.tool}" if call.tool else "tools/call",
            context=parent,
            kind=SpanKind.SERVER,
            attributes={name: value for name, value in attributes.items() if value is not None},
            links=links,
            start_time=call.started_us * 1000,
        )
        self._calls[call.number] = span
        if session is None:  # over HTTP without a session, a connection is one request
            self._transports.pop((None, call.connection), None)

    def call_settled(self, call: CallEnd) -> None:
        span = self._calls.pop(call.number, None)
        if span is None:
            return
        response = {} if call.response is None else answering(call.response, call.rpc_id)
        error = member(response, "error")
        if "code" in error:
            code = json.dumps(error["code"])
            span.set_attribute("rpc.response.status_code", code)
            fail(span, code if call.outcome == "rpc_error" else call.outcome, text(error.get("message")))
        elif call.outcome != "ok":
            fail(span, call.outcome, None)
        elif self._capture and "result" in response:
            span.set_attribute("gen_ai.tool.call.result", json.dumps(response["result"]))
        span.end(call.ended_us * 1000)

    def close(self) -> None:
        for span in [*self._calls.values(), *self._episodes.values()]:  # the run was interrupted
            fail(span, "cancelled", None)
            span.end()
        self._shut()

    @staticmethod
    def _of(known: Mapping[Connection, T], call: CallStart) -> T | None:
        # a session's handshake can be outside the episodes of its calls
        return known.get((call.episode, call.connection)) or known.get((None, call.connection))


def caller(meta: Mapping[str, Any]) -> Context | None:
    """Return the client's trace context from a request's `_meta`, if it is valid (SEP-414)."""
    from opentelemetry.context import Context
    from opentelemetry.trace import get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {name: meta[name] for name in PROPAGATED if isinstance(meta.get(name), str)}
    if "traceparent" not in carrier:
        return None
    context = TraceContextTextMapPropagator().extract(carrier, Context())
    return context if get_current_span(context).get_span_context().is_valid else None


def fail(span: Span, error_type: str, description: str | None) -> None:
    from opentelemetry.trace import StatusCode

    span.set_attribute("error.type", error_type)
    span.set_status(StatusCode.ERROR, description)


def messages(body: Body) -> Iterator[dict[str, Any]]:
    """Yield the messages of a frame, or none if it is too large for memory."""
    from mcp_bench.recorder.frames import jsonrpc

    if not isinstance(body, bytes):
        return
    try:
        value = jsonrpc.loads(body)
    except ValueError:
        return
    for message in value if isinstance(value, list) else [value]:
        if isinstance(message, dict):
            yield message


def answering(body: Body, rpc_id: str) -> dict[str, Any]:
    """Return the message of a frame with this id (JSON text), or an empty one."""
    from mcp_bench.recorder.frames.jsonrpc import id_text, same_id

    by_id: dict[str, dict[str, Any]] = {
        id_text(found.get("id")): found for found in reversed([*messages(body)])
    }
    return by_id.get(same_id(rpc_id, by_id) or "", {})


def member(message: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = message.get(name)
    return value if isinstance(value, dict) else {}


def text(value: object) -> str | None:
    from mcp_bench.recorder.frames.jsonrpc import clean

    return clean(value) if isinstance(value, str) else None


def plain_id(rpc_id: str) -> str | None:
    """Return an id in the form of the conventions: text without quotation marks, None for null."""
    if rpc_id == "null":
        return None
    value = json.loads(rpc_id) if rpc_id.startswith('"') else rpc_id
    return text(value)
