"""`mcp-bench serve-model`: a checkpoint as an OpenAI-compatible endpoint, until Ctrl-C."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mcp_bench.trainer.serving import Server

EPILOG = """\b
Examples:
  mcp-bench serve-model tuned/model
  mcp-bench serve-model tuned/model --port 8000 --model-name tuned
  mcp-bench serve-model ./Qwen3.5-9B --engine vllm --vllm ~/vllm --tensor-parallel 8
  mcp-bench serve-model ./Qwen3.5-9B --max-model-len 65536 -- --gpu-memory-utilization 0.85
  mcp-bench serve-model tuned/checkpoints/checkpoint-200 --json > server.json &
"""
WAIT_SECONDS = 3600.0


@click.command("serve-model", epilog=EPILOG)
@click.argument("checkpoint", metavar="CKPT", type=click.Path(path_type=Path))
@click.argument("extra", nargs=-1, metavar="[-- ENGINE FLAGS]")
@click.option(
    "--engine",
    type=click.Choice(["auto", "vllm", "transformers"]),
    default="auto",
    show_default=True,
    help="auto: vLLM where there is one, else transformers serve.",
)
@click.option("--vllm", metavar="PATH", help="vLLM's environment or executable. [env: MCP_BENCH_VLLM]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="0 takes a free one."
)
@click.option("--model-name", metavar="NAME", help="What clients call the model. Default: CKPT's last part.")
@click.option("--tensor-parallel", type=click.IntRange(1), metavar="N", help="GPUs that share each layer.")
@click.option("--data-parallel", type=click.IntRange(1), metavar="N", help="Copies of the model.")
@click.option(
    "--max-model-len", type=click.IntRange(1), metavar="N", help="Tokens of a conversation at most."
)
@click.option("--tool-call-parser", metavar="NAME", help="How it writes tool calls. Default: by its family.")
@click.option(
    "--reasoning-parser",
    metavar="NAME",
    help="How it writes thoughts (none: it has none). Default: by its family.",
)
@click.option(
    "--start-timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the engine may take until it answers.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document once it is ready.")
def serve_model(
    checkpoint: Path, extra: tuple[str, ...], engine: str, as_json: bool, **settings: Any
) -> None:
    """Serve a checkpoint, so that it can be recorded like any other model.

    CKPT is a folder with config.json, weights, a tokenizer and its chat template, or one with a LoRA
    adapter: that is merged into its base model first, into CKPT/merged. Its generation_config.json is what
    requests get that name no settings of their own.

    Tool calls come back as such, in whichever form the model writes them; the form is known for the Qwen
    families. What stands behind -- is passed to the engine as it is.

    Runs until Ctrl-C or SIGTERM, and ends with 1 where the engine ends by itself.
    """
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.trainer.serving import serve
    from mcp_bench.trainer.serving.server import is_loopback

    if extra and not extra[0].startswith("-"):
        raise WrongUseError(
            f"one checkpoint is served at a time: what is {extra[0]!r}? Engine flags stand behind --"
        )
    if not is_loopback(settings["host"]):
        click.echo(
            f"Warning: whoever can reach {settings['host']} may use the model: it asks for no key.",
            err=True,
        )
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with serve(checkpoint, engine=engine, extra=extra, on_wait=_progress(), **settings) as server:
            _tell(server, as_json)
            while True:
                server.wait(WAIT_SECONDS)
    except KeyboardInterrupt:
        click.echo("The server has ended.", err=True)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _progress() -> Any:
    """Return what shows a line that counts the seconds, on a terminal."""
    if not sys.stderr.isatty():
        return None

    def show(engine: str, seconds: float) -> None:
        click.echo(f"\rStarting {engine}: {seconds:.0f} s ", err=True, nl=False)

    return show


def _tell(server: Server, as_json: bool) -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)
    use = ["mcp-bench", "record", "--agent", "chat", "--base-url", server.base_url, "--model", server.model]
    if as_json:
        document = {
            "url": server.base_url,
            "model": server.model,
            "engine": server.engine,
            "pid": server.pid,
            "log": str(server.log),
            "use": shlex.join(use),
        }
        click.echo(json.dumps(document))
        return
    click.echo(f"{server.model} is served by {server.engine} at {server.base_url}")
    click.echo(f"  log   {server.log}")
    click.echo(f"  use   {shlex.join(use)}")
    click.echo("  stop  Ctrl-C")
