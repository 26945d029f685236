"""`python -m mcp_bench.trainer.engine FOLDER`: serve a checkpoint; `serve-model` runs this.

Every request must show the key in the environment's MCP_BENCH_ENGINE_KEY.
"""

from __future__ import annotations

import gc
from pathlib import Path

import click

from mcp_bench.servers.errors import BenchError


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=int, required=True, help="Port.")
@click.option("--model-name", required=True, help="Model name for clients.")
@click.option("--tool-call-parser", required=True, help="Form of tool calls, by vLLM's name.")
@click.option("--reasoning-parser", help="Form of thoughts, by vLLM's name.")
@click.option(
    "--chat-template", type=click.Path(path_type=Path), help="File with a template. Default: FOLDER's own."
)
@click.option("--max-model-len", type=click.IntRange(1), help="Maximum tokens of a conversation.")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda or auto.")
@click.option(
    "--dtype",
    type=click.Choice(["auto", "float32", "bfloat16", "float16"]),
    default="auto",
    show_default=True,
    help="Data type to compute with.",
)
@click.option("--constrain-calls", is_flag=True, help="Hold all tool calls to their schemas.")
@click.option(
    "--batch", type=click.IntRange(1), default=16, show_default=True, help="Requests decoded at once."
)
@click.option(
    "--cache-gib",
    type=click.FloatRange(min=0, min_open=True),
    help="Memory for keys and values. Default: half of what is free; on a CPU, at most 4.",
)
def main(
    folder: Path,
    host: str,
    port: int,
    model_name: str,
    tool_call_parser: str,
    reasoning_parser: str | None,
    chat_template: Path | None,
    max_model_len: int | None,
    device: str,
    dtype: str,
    constrain_calls: bool,
    batch: int,
    cache_gib: float | None,
) -> None:
    """Serve the checkpoint in FOLDER with OpenAI's chat API."""
    from mcp_bench.trainer.cpu_threads import limit_spinning

    limit_spinning()
    gc.disable()  # modules are no garbage: looking for it takes a seventh of the time to import them
    import uvicorn

    from mcp_bench.trainer.engine.app import make_app
    from mcp_bench.trainer.engine.load import load
    from mcp_bench.trainer.serving.require_key import RequireKey

    gc.freeze()
    gc.enable()
    try:
        loaded = load(
            folder,
            calls=tool_call_parser,
            reasoning=reasoning_parser,
            device=device,
            dtype=dtype,
            batch=batch,
            cache_gib=cache_gib,
            max_model_len=max_model_len,
            template=chat_template,
        )
        if constrain_calls and loaded.grammars is None:
            raise BenchError("--constrain-calls: this model's tokenizer cannot be constrained")
    except BenchError as error:
        raise click.ClickException(str(error)) from error
    app = make_app(loaded, model_name, constrain=constrain_calls)
    app.add_middleware(RequireKey)
    uvicorn.run(app, host=host, port=port, access_log=False, timeout_graceful_shutdown=2)


if __name__ == "__main__":
    main()
