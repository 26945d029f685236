"""`mcp-bench serve-model`: serve a checkpoint as an OpenAI-compatible endpoint."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcp_bench.trainer.cli.engine_option import engine_option
from mcp_bench.trainer.serving_defaults import CLIENT_KEY, START_SECONDS

if TYPE_CHECKING:
    from mcp_bench.trainer.serving import Server

EPILOG = """\b
Examples:
  mcp-bench serve-model tuned/model
  mcp-bench serve-model tuned/model --port 8000 --model-name tuned
  mcp-bench serve-model tuned/model --engine torch --constrain-calls
  mcp-bench serve-model ./Qwen3.5-9B --engine vllm --vllm ~/vllm --tensor-parallel 8
  mcp-bench serve-model ./Qwen3.5-9B --max-model-len 65536 -- --gpu-memory-utilization 0.85
  mcp-bench serve-model tuned/checkpoints/checkpoint-200 --json > server.json &
  mcp-bench serve-model tuned.gguf -- n_gpu_layers=99
"""
WAIT_SECONDS = 3600.0


@click.command("serve-model", epilog=EPILOG)
@click.argument("checkpoint", metavar="CKPT", type=click.Path(path_type=Path))
@click.argument("extra", nargs=-1, metavar="[-- ENGINE FLAGS]")
@engine_option(gguf=True)
@click.option(
    "--vllm",
    metavar="PATH",
    help="Environment or executable of vLLM, which auto then uses. [env: MCP_BENCH_VLLM]",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="Port; 0 picks a free one."
)
@click.option("--model-name", metavar="NAME", help="Model name for clients. Default: name of CKPT's folder.")
@click.option("--tensor-parallel", type=click.IntRange(1), metavar="N", help="GPUs to split each layer over.")
@click.option("--data-parallel", type=click.IntRange(1), metavar="N", help="Copies of the model.")
@click.option(
    "--max-model-len", type=click.IntRange(1), metavar="N", help="Maximum tokens of a conversation."
)
@click.option("--tool-call-parser", metavar="NAME", help="Parser for tool calls. Default: by model family.")
@click.option(
    "--reasoning-parser",
    metavar="NAME",
    help="Parser for reasoning (none disables it). Default: by model family.",
)
@click.option("--device", metavar="NAME", help="cpu or cuda (torch engine). Default: cuda if there is one.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "bfloat16", "float16"]),
    help="Data type to compute with. Default: the checkpoint's. On a CPU, our engine takes bfloat16 for "
    "checkpoints in bfloat16 and for large ones, if the CPU computes with it, and else float32.",
)
@click.option(
    "--constrain-calls",
    is_flag=True,
    help="Hold all tool calls to the tools' schemas (torch engine).",
)
@click.option(
    "--start-timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=START_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for the engine to start answering.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document when the server is ready.")
def serve_model(
    checkpoint: Path, extra: tuple[str, ...], engine: str, as_json: bool, **settings: Any
) -> None:
    """Serve a checkpoint as an OpenAI-compatible endpoint.

    CKPT is a folder with config.json, weights, a tokenizer and its chat template, or with a LoRA adapter, the
    name of a fetched base (see `mcp-bench train base`), or a GGUF file for llama.cpp. An adapter is first
    merged into its base model, in CKPT/merged. generation_config.json provides the defaults for requests
    without sampling settings.

    Tool calls are parsed into the API's form; the chat template decides the parser. The answers are those of
    the model alone. With --constrain-calls, or where a request asks for it (tool_choice required, or a tool
    with strict), decoding is held to calls that fit the tools' schemas. Arguments after -- are passed to the
    engine unchanged.

    Runs until Ctrl-C or SIGTERM. Exits with 1 if the engine ends on its own.
    """
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.trainer.serving import serve

    if extra and not extra[0].startswith("-") and checkpoint.suffix != ".gguf":
        raise WrongUseError(
            f"unexpected argument {extra[0]!r}: give one checkpoint, and put engine flags after --"
        )
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with serve(checkpoint, engine=engine, extra=extra, on_wait=_progress(), **settings) as server:
            _print_server(server, as_json)
            while True:
                server.wait(WAIT_SECONDS)
    except KeyboardInterrupt:
        click.echo("Server stopped.", err=True)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _progress() -> Any:
    """Return a callback that shows the seconds passed, or None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        return None

    def show(engine: str, seconds: float) -> None:
        click.echo(f"\rStarting {engine}: {seconds:.0f} s ", err=True, nl=False)

    return show


def _print_server(server: Server, as_json: bool) -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)
    use = ["mcp-bench", "record", "--agent", "chat", "--base-url", server.base_url, "--model", server.model]
    if as_json:
        document = {
            "url": server.base_url,
            "key": server.key,
            "model": server.model,
            "engine": server.engine,
            "pid": server.pid,
            "log": str(server.log),
            "use": f"{CLIENT_KEY}={server.key} {shlex.join(use)}",
        }
        click.echo(json.dumps(document))
        return
    click.echo(f"Serving {server.model} with {server.engine} at {server.base_url}")
    click.echo(f"  log   {server.log}")
    click.echo(f"  use   {CLIENT_KEY}={server.key} {shlex.join(use)}")
    click.echo("  stop  Ctrl-C")
