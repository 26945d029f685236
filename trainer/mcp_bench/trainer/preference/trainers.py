"""TRL's trainers for preferences, on tokens of ours, with the same guards and checkpoints as `train sft`.

TRL would tokenise the pairs itself and take a loss from the results of tools, too. Here the mask covers the
assistant's tokens only. The start's log-probabilities are computed once, before training, so that one model
is in memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from trl.trainer.dpo_trainer import DPOTrainer
from trl.trainer.kto_trainer import KTOTrainer

from mcp_bench.trainer.data import Example
from mcp_bench.trainer.preference.pairs import PreparedPairs
from mcp_bench.trainer.sft import processes
from mcp_bench.trainer.sft.guarded import Guarded
from mcp_bench.trainer.sft.trainer_inputs import ROWS

REFERENCE = ("ref_chosen_logps", "ref_rejected_logps", "ref_logps", "ref_KL_logps")
"""Columns that TRL adds: log-probabilities of the start."""


class _Tokenised(Guarded):
    """Takes a tokenised dataset as it is."""

    def _prepare_dataset(self, dataset: Any, *others: Any) -> Any:
        return dataset

    def compute_ref_log_probs(self, model: Any, inputs: dict[str, Any]) -> Any:
        found: Any = super()
        return found.compute_ref_log_probs(model, {key: inputs[key] for key in inputs if key != ROWS})


class GuardedDPO(_Tokenised, DPOTrainer):
    """DPO (https://arxiv.org/abs/2305.18290)."""


class GuardedKTO(_Tokenised, KTOTrainer):
    """KTO (https://arxiv.org/abs/2402.01306)."""


def pair_rows(prepared: PreparedPairs) -> Any:
    """Return a dataset with a row for each pair."""
    from datasets import Dataset

    return Dataset.from_dict(
        {
            **_columns("chosen", prepared.examples),
            **_columns("rejected", prepared.rejected),
            ROWS: list(range(len(prepared.examples))),
        }
    )


def attempt_rows(prepared: PreparedPairs, seed: int, most: int) -> Any:
    """Return a dataset with a row for each attempt: the two of a pair one after the other, in random order.

    KTO estimates the KL divergence on answers that do not belong to their prompts: here, each prompt goes
    with the answer of the attempt after the next one, which is at another task.
    """
    from datasets import Dataset

    order = torch.randperm(len(prepared.examples), generator=torch.Generator().manual_seed(seed)).tolist()
    attempts = [one for number in order for one in (prepared.examples[number], prepared.rejected[number])]
    others = [
        mismatched(one, other, most) for one, other in zip(attempts, attempts[2:] + attempts[:2], strict=True)
    ]
    return Dataset.from_dict(
        {
            **_columns("own", attempts),
            **_columns("other", others),
            "label": [True, False] * len(order),
            ROWS: [number for number in order for _ in range(2)],
        }
    )


def in_files(dataset: Any, folder: Path) -> Any:
    """Return a dataset from files in `folder`, where several processes train.

    TRL's first process computes the start's log-probabilities and stores them beside these files. The others
    read them there.
    """
    from datasets import load_from_disk

    if processes.count() == 1:
        return dataset
    if processes.rank() == 0:
        shutil.rmtree(folder, ignore_errors=True)  # left by a stopped start
        dataset.save_to_disk(str(folder))
    processes.any_process(False)  # they wait for the files
    return load_from_disk(str(folder))


def mismatched(one: Example, other: Example, most: int) -> Example:
    """Return the prompt of one example with the answer of another: all from its first trained token on.

    The answer is cut where both together would have more than `most` tokens.
    """
    own, foreign = one.trained.index(1), other.trained.index(1)
    until = max(foreign + 1, foreign + most - own)
    tokens, trained = other.tokens[foreign:until], other.trained[foreign:until]
    return Example(one.place, one.tokens[:own] + tokens, bytes(own) + trained)


def _columns(name: str, examples: Sequence[Example]) -> dict[str, Any]:
    return {
        f"{name}_ids": [example.tokens.tolist() for example in examples],
        f"{name}_mask": [list(example.trained) for example in examples],
    }


@dataclass(frozen=True)
class PairBatch:
    """Collates pairs for DPO: the chosen attempts, then the rejected ones; shape (2 * pairs, longest)."""

    pad: int

    def __call__(self, batch: list[dict[str, Any]]) -> dict[str, Tensor]:
        found = _padded([*_sides(batch, "chosen"), *_sides(batch, "rejected")], self.pad)
        return {**found, **_reference(batch), ROWS: torch.tensor([row[ROWS] for row in batch])}


@dataclass(frozen=True)
class AttemptBatch:
    """Collates attempts for KTO; shape (attempts, longest)."""

    pad: int

    def __call__(self, batch: list[dict[str, Any]]) -> dict[str, Tensor]:
        other = _padded(_sides(batch, "other"), self.pad)
        return {
            **_padded(_sides(batch, "own"), self.pad),
            **{f"KL_{key}": value for key, value in other.items()},
            **_reference(batch),
            "label": torch.tensor([row["label"] for row in batch]),
            ROWS: torch.tensor([row[ROWS] for row in batch if row["label"]]),  # each pair once
        }


def _sides(batch: Sequence[dict[str, Any]], name: str) -> list[tuple[list[int], list[int]]]:
    return [(row[f"{name}_ids"], row[f"{name}_mask"]) for row in batch]


def _padded(sides: Sequence[tuple[list[int], list[int]]], pad: int) -> dict[str, Tensor]:
    """Return tokens padded at the end, and the masks of real tokens and of trained ones."""
    longest = max(len(ids) for ids, _ in sides)
    ids = torch.full((len(sides), longest), pad)
    real, trained = torch.zeros_like(ids), torch.zeros_like(ids)
    for number, (tokens, mask) in enumerate(sides):
        ids[number, : len(tokens)] = torch.tensor(tokens)
        real[number, : len(tokens)] = 1
        trained[number, : len(tokens)] = torch.tensor(mask)
    return {"input_ids": ids, "attention_mask": real, "completion_mask": trained}


def _reference(batch: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
    return {name: torch.tensor([row[name] for row in batch]) for name in REFERENCE if name in batch[0]}
