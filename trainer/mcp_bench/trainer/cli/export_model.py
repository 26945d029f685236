"""`mcp-bench export-model`: write a model in the form that other programs load."""

from __future__ import annotations

import json
from pathlib import Path

import click

EPILOG = """\b
Examples:
  mcp-bench export-model tuned/model --gguf tuned.gguf
  mcp-bench export-model tuned/model --gguf tuned.gguf --type q8_0 --license apache-2.0
  mcp-bench export-model smollm2-135m --gguf smollm2.gguf --type f32 --json
"""


@click.command("export-model", epilog=EPILOG)
@click.argument("model")
@click.option(
    "--gguf",
    "out",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="GGUF file to write, for llama.cpp and programs built on it.",
)
@click.option(
    "--type",
    "weight_type",
    type=click.Choice(["f32", "f16", "bf16", "q8_0"]),
    default="f16",
    show_default=True,
    help="How matrices are stored. Vectors are always f32.",
)
@click.option("--name", metavar="NAME", help="Name of the model in the file. Default: the folder's name.")
@click.option(
    "--license",
    "licence",
    metavar="ID",
    help="SPDX identifier of its licence. Default: that of a fetched base.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def export_model(
    model: str,
    out: Path,
    weight_type: str,
    name: str | None,
    licence: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write a model as a GGUF file.

    Its tokenizer and chat template are in it. MODEL is a folder with a model or a LoRA adapter, or the name
    of a fetched base. An adapter is first merged into its base model, in MODEL/merged. Models of the types
    llama, mistral, qwen2 and qwen3 are supported, with byte-level BPE tokenizers.

    The file is complete or not there: it is written beside its place and renamed.
    """
    from dataclasses import asdict
    from functools import partial

    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.trainer.bases import located
    from mcp_bench.trainer.bases.places import origin
    from mcp_bench.trainer.cli.byte_progress import ByteProgress
    from mcp_bench.trainer.gguf.write import write_gguf
    from mcp_bench.trainer.serving.adapter import merge_adapter
    from mcp_bench.trainer.serving.checkpoint import is_adapter, read_checkpoint

    folder = Path(located(model))
    if not folder.is_dir():
        raise WrongUseError(
            f"no folder {model}, and no fetched base of that name: see `mcp-bench train base`"
        )
    if out.exists() and not force:
        raise WrongUseError(f"{out} exists: use --force, or write to another file")
    if not out.absolute().parent.is_dir():
        raise WrongUseError(f"no folder {out.parent}: make it first")
    progress = ByteProgress()
    try:
        whole = merge_adapter(folder) if is_adapter(folder) else folder
        read_checkpoint(whole)  # names what is missing
        written = write_gguf(
            whole,
            out,
            weight_type,
            name=name or folder.resolve().name,
            licence=licence or origin(folder).get("licence"),
            on_progress=partial(progress.show, "Writing"),
        )
    finally:
        progress.close()
    if as_json:
        click.echo(json.dumps(asdict(written)))
        return
    click.echo(
        f"{written.path}: {written.architecture}, {written.parameters / 1e6:.1f} M parameters as "
        f"{written.type}, {written.bytes / 1e6:.0f} MB"
    )
