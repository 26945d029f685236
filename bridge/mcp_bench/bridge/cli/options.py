"""Options and option values that several commands share."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click

from mcp_bench.recorder.cli.options import finite

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_IDLE = 3600.0
DEFAULT_MAX_BODY = 16 << 20
AMOUNT = r"\d+(\.\d+)?|\.\d+"
"""US dollars."""


def address(text: str) -> tuple[str, int]:
    """Parse `[HOST:]PORT`; the default host is the loopback address."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise click.BadParameter(f"{text!r} is not [HOST:]PORT", param_hint="--http")
    return host or "127.0.0.1", int(port)


def ids_in_files(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Replace each `@FILE` by the ids in the file, which are divided by spaces or lines."""
    ids: list[str] = []
    for value in values:
        if not value.startswith("@"):
            ids.append(value)
            continue
        try:
            found = Path(value[1:]).read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError) as error:
            raise click.BadParameter(f"{value}: no readable file of ids ({error})") from error
        if not found:
            raise click.BadParameter(f"{value}: the file has no ids")
        ids += found
    return tuple(ids)


splits_option = click.option(
    "--split",
    "splits",
    multiple=True,
    default=("dev",),
    show_default=True,
    metavar="SPLIT",
    help="Count tasks of this split (repeatable).",
)
idle_option = click.option(
    "--idle",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    default=DEFAULT_IDLE,
    callback=finite,
    show_default=True,
    help="End and grade an open task after this time without a call.",
)
HTTP_OPTIONS = (
    click.option(
        "--http",
        metavar="[HOST:]PORT",
        callback=lambda ctx, param, value: None if value is None else address(value),
        help="Serve streamable HTTP at this address; port 0 picks a free port.",
    ),
    click.option(
        "--token",
        metavar="TOKEN",
        envvar="MCP_BENCH_TOKEN",
        help="Token of HTTP clients, in the URL or as a bearer token. Default: one that is kept in the home. "
        "Other users can see a command line as it starts, and cannot see $MCP_BENCH_TOKEN.",
    ),
    click.option(
        "--max-sessions",
        type=click.IntRange(min=1),
        metavar="N",
        default=256,
        show_default=True,
        help="Maximum number of HTTP clients at a time.",
    ),
    click.option(
        "--max-body",
        type=click.IntRange(min=1),
        metavar="BYTES",
        default=DEFAULT_MAX_BODY,
        show_default=True,
        help="Maximum size of an HTTP request.",
    ),
)


def http_url(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse a URL that no client can open, before an agent spends time on retries."""
    if value is None:
        return None

    from mcp_bench.bridge.model_endpoint.url import is_http_url

    if not is_http_url(value):
        raise click.BadParameter(f"{value!r} is not an http:// or https:// URL")
    return value


def key_values(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Parse repeated KEY=VALUE options."""
    pairs = [value.partition("=") for value in values]
    for key, sign, _ in pairs:
        if not key or not sign:
            raise click.BadParameter(f"{key!r} is not of the form KEY=VALUE")
    return {key: value for key, _, value in pairs}


def limits(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    """Parse repeated KEY=N options, whose keys are those of `--agent-limit` or `--role-limit`."""
    if not values:
        return {}

    from mcp_bench.bridge.run.choices import AGENT_LIMITS, ROLE_LIMITS

    pairs = key_values(ctx, param, values)
    known = ROLE_LIMITS if param.name == "role_limits" else AGENT_LIMITS
    for key, value in pairs.items():
        if key not in known:
            raise click.BadParameter(f"{key!r} is not one of {', '.join(known)}")
        pattern, what = (AMOUNT, "an amount") if key == "cost" else (r"\d+", "a whole number")
        if not (re.fullmatch(pattern, value, re.ASCII) and float(value)):
            raise click.BadParameter(f"{key}={value}: {value!r} is not {what} above 0")
    return {key: float(value) if key == "cost" else int(value) for key, value in pairs.items()}


def with_options(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds options to a command, whose help lists them in this order."""
    return lambda command: reduce(lambda inner, option: option(inner), reversed(options), command)


def judge_options(command: F) -> F:
    """Add the options that name a model that reads recordings, and what it may use."""
    options = [
        click.option("--judge-model", metavar="M", help="Model that reads the attempts."),
        click.option(
            "--judge-base-url",
            metavar="URL",
            callback=http_url,
            help="Its endpoint, with the Chat Completions API. Default: $OPENAI_BASE_URL, or OpenAI's. "
            "Its key is in $MCP_BENCH_JUDGE_API_KEY, or $OPENAI_API_KEY.",
        ),
        click.option(
            "--role-limit",
            "role_limits",
            metavar="KEY=N",
            multiple=True,
            callback=limits,
            help="What it may use in all: requests (200), tokens (2000000), cost in US dollars (no limit), "
            "and seconds for a request (120) (repeatable).",
        ),
        click.option(
            "--prices",
            type=click.Path(dir_okay=False, exists=True),
            metavar="FILE",
            help="What it costs, in YAML, as for `mcp-bench record`.",
        ),
    ]
    return with_options(*options)(command)


def http_options(command: F) -> F:
    """Add the options for streamable HTTP; `http` is a host and a port, or None."""
    return with_options(*HTTP_OPTIONS)(command)


def was_given(ctx: click.Context, name: str) -> bool:
    """Whether a parameter was typed, and is no default of the user's settings file."""
    return ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def refuse_given(ctx: click.Context, among: Collection[str], why: str) -> None:
    """Refuse what was typed although a file or a run says it already.

    Args:
        ctx: the command's.
        among: the parameters to look at.
        why: the beginning of the error.

    Raises:
        click.UsageError: one of them was typed.
    """
    for param in ctx.command.params:
        if param.name in among and was_given(ctx, str(param.name)):
            word = param.opts[0] if isinstance(param, click.Option) else param.human_readable_name
            raise click.UsageError(f"{why}: leave out {word}")


def log_to_stderr(form: str = "mcp-bench: %(message)s") -> None:
    """Log to stderr. Messages must not be private: an agent can read its server's stderr."""
    import logging

    from mcp_bench.servers.terminal.sanitized_logs import SanitizedFormatter

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(SanitizedFormatter(form))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.getLogger("mcp_bench.bridge.interactive").setLevel(logging.INFO)
