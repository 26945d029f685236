"""Update a policy on weighted rows, and measure what happened."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from mcp_bench.trainer.engine.sampling import unlikely
from mcp_bench.trainer.rl.credit.algorithms import Weighted
from mcp_bench.trainer.rl.credit.loss import (
    Clipping,
    Surrogate,
    distillation_loss,
    kl_loss,
    out_of_bounds,
    policy_loss,
    trusted,
)
from mcp_bench.trainer.rl.settings import RL
from mcp_bench.trainer.rl.together import (
    add_up,
    everywhere,
    mine,
    set_state,
    set_weights,
    shares,
    state_of,
    weights_of,
    whole,
)
from mcp_bench.trainer.sft import processes

MEASURED = ("loss", "entropy", "mismatch", "distrusted", "clipped", "kl", "teacher")


@dataclass(frozen=True)
class Figures:
    """What the updates of a step did, `clipped` all of them, and the others in the first pass over the rows.
    Means are over the sampled tokens of the rows, in nats."""

    tokens: int
    loss: float
    gradient: float
    """Norm of the gradient before it was cut."""
    entropy: float
    mismatch: float
    """Mean difference of log-probabilities between engine and trainer, before the first update."""
    distrusted: float
    """Share of the tokens on which engine and trainer disagree. The losses by advantage and by teacher leave
    them out; the others do not."""
    clipped: float
    """Share of the tokens whose ratio, or with gspo that of their row, was outside of the bounds."""
    kl: float
    """KL divergence to the start, over the whole vocabulary: an estimate from the sampled tokens alone can be
    a hundred times too high for one rare token."""
    teacher: float = 0.0
    """Divergence from the teacher, of algorithms with one."""


@dataclass(frozen=True)
class Gap:
    """How much more probable a teacher finds tokens of attempts than the policy did, in nats a token."""

    solved: float | None
    """None: there is no solved attempt with a teacher's row."""
    failed: float | None


class Learner:
    """A model, its optimizer, a frozen copy of the start, and a teacher for algorithms with one.

    Each of several processes has one, with its part of the weights; see `together`.
    """

    def __init__(
        self,
        model: Any,
        reference: Any,
        optimizer: torch.optim.Optimizer,
        settings: RL,
        *,
        max_grad_norm: float,
        precision: torch.dtype | None = None,
        teacher: Any = None,
    ) -> None:
        """Prepare.

        Args:
            model: the policy; the engine answers with the same weights.
            reference: the start, frozen.
            optimizer: of the policy.
            settings: of the run.
            max_grad_norm: a longer gradient is cut.
            precision: what to compute with; None: the weights' own type.
            teacher: the model that is followed, frozen.
        """
        self.teacher = teacher
        self.model, self.reference, self.optimizer, self.settings = model, reference, optimizer, settings
        self._most, self._precision = max_grad_norm, precision
        self._states: dict[str, Any] = {}
        for group in optimizer.param_groups:
            group.setdefault("top", group["lr"])

    @everywhere
    def learn(self, rows: Sequence[Weighted], *, surrogate: Surrogate, rate: float) -> Figures:
        """Make the updates of a step.

        Args:
            rows: what to learn from; not empty.
            surrogate: the loss of advantages.
            rate: the share of the learning rate for this step.

        Raises:
            FloatingPointError: the loss or the gradient is not finite. That update is not made.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = group["top"] * rate
        count = min(self.settings.minibatches, len(rows))
        parts = [rows[at::count] for at in range(count)]
        found = [self._update(part, surrogate, compare=True) for part in parts]
        again = [
            self._update(part, surrogate, compare=False)
            for _ in range(1, self.settings.updates)
            for part in parts
        ]
        # the first updates begin where the attempts were sampled: it is the later ones that leave the bounds
        return replace(joined(found), clipped=joined([*found, *again]).clipped)

    def _update(self, rows: Sequence[Weighted], surrogate: Surrogate, *, compare: bool) -> Figures:
        """Make one update; `compare`: with the start, in any case."""
        total = sum(int(weighted.row.sampled.sum()) for weighted in rows)
        weight = sum(int(weighted.row.sampled.sum()) * weighted.scale for weighted in rows)
        sums = dict.fromkeys(MEASURED, 0.0)
        for batch, counts in shares(list(micro_batches(rows, self.settings.row_tokens))):
            taken = batch if counts else [replace(one, scale=0.0) for one in batch]
            for name, value in self._backward(taken, surrogate, weight, compare=compare).items():
                sums[name] += value if counts else 0.0
        sums = add_up(sums)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self._most)
        gradient = float(whole(norm))
        if not (math.isfinite(gradient) and math.isfinite(sums["loss"])):
            self.optimizer.zero_grad()
            raise FloatingPointError(f"the loss is {sums['loss']}, the norm of its gradient {gradient}")
        self.optimizer.step()
        self.optimizer.zero_grad()
        means = {name: value / total for name, value in sums.items() if name != "loss"}
        return Figures(total, sums["loss"], gradient, **means)

    def _backward(
        self, batch: Sequence[Weighted], surrogate: Surrogate, weight: float, *, compare: bool
    ) -> dict[str, float]:
        """Add a batch's gradient; `compare`: with the start, in any case."""
        settings = self.settings
        logits, tokens, rows = self._logits(self.model, batch)
        everything = torch.log_softmax(logits, dim=-1)
        whole_logprobs = everything.gather(1, tokens[:, None])[:, 0]
        logprobs = whole_logprobs - rest_of_cut(everything, tokens, settings.min_p)
        device = logprobs.device
        sampled = torch.cat([torch.from_numpy(one.row.logprobs[one.row.sampled]) for one in batch]).to(device)
        advantage = torch.tensor([one.rl for one in batch], device=device)[rows]
        imitation = torch.tensor([one.ce for one in batch], device=device)[rows]
        scale = torch.tensor([one.scale for one in batch], device=device)[rows]
        fair = trusted(logprobs.detach(), sampled, settings.distrust)
        bounds = Clipping(settings.clip_below, settings.clip_above)
        each = policy_loss(logprobs, sampled, advantage, rows, surrogate=surrogate, clipping=bounds) * fair
        each = each - imitation * whole_logprobs
        followed = torch.zeros_like(logprobs)
        if any(one.distillation for one in batch):
            with torch.no_grad():
                taught, _, _ = self._logits(self.teacher, [hinted(one) for one in batch])
            follow = settings.distillation
            followed = distillation_loss(logits, taught, alpha=follow.alpha, top=follow.top)
            wanted = torch.tensor([one.distillation for one in batch], device=device)[rows]
            each = each + wanted * followed * fair
        divergence = torch.zeros_like(logprobs)
        if settings.kl or compare:
            with torch.no_grad():
                start = torch.log_softmax(self._logits(self.reference, batch)[0], dim=-1)
                divergence = (everything.exp() * (everything - start)).sum(-1)
            if settings.kl:
                each = each + settings.kl * kl_loss(whole_logprobs, start.gather(1, tokens[:, None])[:, 0])
        loss = (each * scale).sum() / weight
        scaled = loss * processes.count()  # gradients of several processes are averaged
        scaled.backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            outside = out_of_bounds(logprobs, sampled, rows, surrogate=surrogate, clipping=bounds)
            return {
                "loss": float(loss),
                "entropy": float(-(everything.exp() * everything).sum()),
                "mismatch": float((logprobs - sampled).abs().sum()),
                "distrusted": float((~fair).sum()),
                "clipped": float(outside.sum()),
                "kl": float(divergence.sum()),
                "teacher": float(followed.sum()),
            }

    @everywhere
    @torch.no_grad()
    def gap(self, rows: Sequence[Weighted]) -> Gap:
        """Return the gap between the teacher and the policy as it sampled."""
        sums = dict.fromkeys(("solved", "failed", "solved_tokens", "failed_tokens"), 0.0)
        for batch, counts in shares(list(micro_batches(rows, self.settings.row_tokens))):
            found = self._chosen(self.teacher, [hinted(one) for one in batch])
            sizes = [int(one.row.sampled.sum()) for one in batch]
            for one, logprobs in zip(batch, torch.split(found, sizes), strict=True):
                if counts:
                    kind = "solved" if one.solved else "failed"
                    sampled = float(one.row.logprobs[one.row.sampled].sum())
                    sums[kind] += float(logprobs.sum()) - sampled
                    sums[f"{kind}_tokens"] += len(logprobs)
        sums = add_up(sums)
        solved, failed = (
            sums[kind] / sums[f"{kind}_tokens"] if sums[f"{kind}_tokens"] else None
            for kind in ("solved", "failed")
        )
        return Gap(solved, failed)

    @everywhere
    @torch.no_grad()
    def follow(self, share: float) -> None:
        """Move the teacher towards the policy by this share of the way (an exponential moving average)."""
        for theirs, ours in zip(mine(self.teacher), mine(self.model), strict=True):
            theirs.lerp_(ours.to(theirs.dtype), share)

    @everywhere
    def weights(self) -> dict[str, Any]:
        """Return the weights of the policy; of several processes, the first has them."""
        return weights_of(self.model)

    @everywhere
    def state(self, *, teacher: bool) -> dict[str, Any]:
        """Return what `restore` needs to go on; of several processes, the first has it.

        Args:
            teacher: whether the teacher's weights are a part of it.
        """
        state = {"model": weights_of(self.model), "optimizer": state_of(self.model, self.optimizer)}
        return state | ({"teacher": weights_of(self.teacher)} if teacher else {})

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self._states = state
        self._restore(teacher="teacher" in state)

    @everywhere
    def _restore(self, *, teacher: bool) -> None:
        state, self._states = (
            self._states,
            {},
        )  # large, and not sent as a whole: FSDP sends each process its part
        set_weights(self.model, state.get("model", {}))
        set_state(self.model, self.optimizer, state.get("optimizer", {}))
        if teacher:
            set_weights(self.teacher, state.get("teacher", {}))

    def _chosen(self, model: Any, batch: Sequence[Weighted]) -> Tensor:
        logits, tokens, _ = self._logits(model, batch)
        return torch.log_softmax(logits, dim=-1).gather(1, tokens[:, None])[:, 0]

    def _logits(self, model: Any, batch: Sequence[Weighted]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the logits before sampled tokens, shape (tokens, vocabulary), the tokens and their rows."""
        longest = max(len(one.row.tokens) for one in batch)
        ids = torch.zeros((len(batch), longest), dtype=torch.int64)
        chosen = torch.zeros_like(ids, dtype=torch.bool)
        for number, one in enumerate(batch):
            length = len(one.row.tokens)
            ids[number, :length] = torch.from_numpy(one.row.tokens)
            chosen[number, :length] = torch.from_numpy(one.row.sampled)
        device = next(model.parameters()).device
        ids, chosen = ids.to(device), chosen.to(device)
        wanted = chosen[:, 1:]  # the logits at a token are for the next one
        places = wanted.any(dim=0).nonzero()[:, 0]
        keep = {"logits_to_keep": places} if takes_places(model) else {}
        # no mask: padding is on the right, where nothing looks, and attention is faster without one
        with torch.autocast(device.type, dtype=self._precision, enabled=self._precision is not None):
            made = model(input_ids=ids, use_cache=False, **keep).logits
        if not keep:
            made = made[:, places]
        return (
            made[wanted[:, places]].float() / self.settings.temperature,
            ids[:, 1:][wanted],
            wanted.nonzero()[:, 0],
        )


def joined(parts: Sequence[Figures]) -> Figures:
    """Return the figures of several updates as one. The engine is compared before them all."""
    total = sum(part.tokens for part in parts)
    names = [field.name for field in fields(Figures) if field.name != "tokens"]
    means = {name: sum(getattr(part, name) * part.tokens for part in parts) / total for name in names}
    first = {name: getattr(parts[0], name) for name in ("mismatch", "distrusted")}
    return Figures(total, **{**means, **first})


def rest_of_cut(logprobs: Tensor, tokens: Tensor, least: float) -> Tensor | float:
    """Return the log of the probability that a cut leaves, shape (tokens,).

    Args:
        logprobs: of the whole vocabulary, shape (tokens, vocabulary).
        tokens: those that were sampled, which are never cut.
        least: tokens that are less than this fraction as likely as the most likely one are cut.
    """
    if not least:
        return 0.0
    left_out = unlikely(logprobs.detach(), least).scatter(1, tokens[:, None], value=False)
    return logprobs.masked_fill(left_out, -torch.inf).logsumexp(-1)


def takes_places(model: Any) -> bool:
    """Return whether a model computes the logits of some places only."""
    return "logits_to_keep" in inspect.signature(model.forward).parameters


def hinted(one: Weighted) -> Weighted:
    """Return a row as the teacher reads it."""
    return one if one.hinted is None else replace(one, row=one.hinted)


def micro_batches(rows: Sequence[Weighted], most: int) -> Iterator[list[Weighted]]:
    """Yield rows of similar length together, each batch with at most `most` tokens with padding."""
    batch: list[Weighted] = []

    def size(one: Weighted) -> int:
        return max(len(one.row.tokens), len(hinted(one).row.tokens))

    for row in sorted(rows, key=size):
        if batch and (len(batch) + 1) * size(row) > most:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
