"""Training runs of a few seconds, with a few short rows and a model of 0.1M parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from mcp_bench.servers.errors import BenchError
from mcp_bench.trainer.cli.train import train
from tests.support.training.byte_tokenizers import CHATML, byte_tokenizer

SMALL = {
    "data.max_length": 512,
    "data.group_by_length": False,
    "model.architecture.vocab_size": 512,
    "model.architecture.hidden_size": 64,
    "model.architecture.intermediate_size": 64,
    "model.architecture.num_hidden_layers": 1,
    "training.epochs": 1,
    "training.optimizer": "adamw",
    "training.sequences_per_device": 4,
    "training.save_every": 3,
    "hardware.memory_gib": 16,
}
NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hana", "Ivo", "Jo", "Kim", "Lea")


def settings(**changed: object) -> list[str]:
    """Return `--set` arguments: small sizes and a test's changes (with `__` for dots)."""
    values = {**SMALL, **{key.replace("__", "."): value for key, value in changed.items()}}
    return [word for key, value in values.items() for word in ("--set", f"{key}={json.dumps(value)}")]


def rows(count: int = len(NAMES)) -> list[dict[str, Any]]:
    """Return questions, each answered with a call that repeats the name."""
    function = {"name": "find", "description": "Find.", "parameters": {"type": "object", "properties": {}}}
    return [
        {
            "messages": [
                {"role": "user", "content": f"Who is {NAMES[number % len(NAMES)]}?"},
                {
                    "role": "assistant",
                    "tool_calls": [
                        {
                            "id": "c",
                            "type": "function",
                            "function": {
                                "name": "find",
                                "arguments": {"name": NAMES[number % len(NAMES)]},
                            },
                        }
                    ],
                },
            ],
            "tools": [{"type": "function", "function": function}],
        }
        for number in range(count)
    ]


def sft(*arguments: object) -> Result:
    """Run `mcp-bench train sft` and raise its `BenchError`, if any."""
    result = CliRunner().invoke(train, ["sft", *map(str, arguments)])
    if isinstance(result.exception, BenchError):
        raise result.exception
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def write_rows(path: Path, made: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
    return path


def save_tokenizer(folder: Path, template: str | None = CHATML) -> Path:
    byte_tokenizer(template).save_pretrained(folder)
    return folder


def curve(run: Path) -> list[tuple[int, float, float]]:
    """Return step, loss and gradient norm of each step of a run."""
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [(line["step"], line["loss"], line["grad_norm"]) for line in map(json.loads, lines)]
