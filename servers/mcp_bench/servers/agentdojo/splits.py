"""Stable splits, assigned by the rank of a hash, so their sizes are exact in every suite."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

SPLITS = ("train", "dev", "test")
TRAIN_SHARE, DEV_SHARE = 0.6, 0.2


def assign(task_ids: Iterable[str]) -> dict[str, str]:
    """Return the split of each task of one suite: 60 % train, 20 % dev, the rest test."""
    ranked = sorted(task_ids, key=lambda task_id: hashlib.sha256(task_id.encode()).digest())
    train_end = round(len(ranked) * TRAIN_SHARE)
    dev_end = round(len(ranked) * (TRAIN_SHARE + DEV_SHARE))
    return {task_id: SPLITS[(rank >= train_end) + (rank >= dev_end)] for rank, task_id in enumerate(ranked)}
