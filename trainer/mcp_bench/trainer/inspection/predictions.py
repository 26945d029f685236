"""How two models differ on the same conversations: activations, the logit lens, predictions, perplexity.

Everything is measured where the assistant's tokens are predicted, with the tokens that were recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from mcp_bench.recorder.scores.statistics import bootstrap
from mcp_bench.trainer.data import Example

NORMS = ("norm", "final_layernorm", "ln_f", "final_layer_norm")
"""Names of the last norm in transformers' models; the logit lens needs it."""
FACTORS = ("logit_scale", "output_multiplier", "lm_head_multiplier")
"""Names of what logits are multiplied by in configurations of Cohere, Muse Glimmer and Falcon-H1."""
PIECE = 256
"""Positions whose logits are in memory at once."""


@dataclass(frozen=True)
class Layer:
    """One layer's output, averaged over positions. Layer 0 is the embedding."""

    number: int
    cosine: float
    """Of the two models' activations."""
    lens_kl: float | None = None
    """KL divergence (nats) of what the layer already predicts, model from base: its activations through the
    last norm and the output matrix (the logit lens,
    https://www.lesswrong.com/posts/AcKRB8wDpdaN6v6ru). None: the model's last norm was not found."""
    lens_changed: float | None = None
    """Share of positions where the most probable token differs."""


@dataclass(frozen=True)
class Predictions:
    """Two models on one group of conversations. Means are over the assistant's tokens, in nats."""

    group: str
    rows: int
    tokens: int
    kl: float
    """KL(model || base) of the next token."""
    changed: float
    """Share of tokens whose most probable value differs."""
    entropy: tuple[float, float]
    """Of the base and of the model."""
    perplexity: tuple[float, float]
    """Of the base and of the model on the recorded tokens."""
    loss_change: float
    """Mean change of the loss per token; below 0: the model predicts them better."""
    loss_change_ci: tuple[float, float] | None
    """95 % bootstrap interval over rows; None with one row."""
    layers: list[Layer] = field(default_factory=list)


def compare(
    group: str, base: Any, model: Any, examples: Sequence[Example], progress: Callable[[], None]
) -> Predictions:
    """Return how two models differ on tokenised rows.

    Args:
        group: the rows' name.
        base: a causal language model of transformers.
        model: the same after training; on the same device.
        examples: the rows; positions with a loss are compared.
        progress: called after each row.
    """
    sums = _Sums(base, model)
    for example in examples:
        sums.add(example)
        progress()
    return sums.result(group)


class _Sums:
    """Sums over positions."""

    def __init__(self, base: Any, model: Any) -> None:
        self.pair = (base, model)
        self.lens = all(_last_norm(one) is not None for one in self.pair)
        self.losses: list[tuple[float, float]] = []
        self.counts: list[int] = []
        self.kl = self.changed = 0.0
        self.entropy = [0.0, 0.0]
        self.cosine: list[float] = []
        self.lens_kl: list[float] = []
        self.lens_changed: list[float] = []

    @torch.inference_mode()
    def add(self, example: Example) -> None:
        device = next(self.pair[0].parameters()).device
        tokens = torch.tensor(example.tokens, device=device)
        mask = torch.tensor(list(example.trained), dtype=torch.bool, device=device)[1:]
        wanted = mask.nonzero()[:, 0]  # the activations at a position predict the next token
        states = [self._states(one, tokens, wanted) for one in self.pair]
        targets = tokens[1:][wanted]
        self._add_layers(states)
        losses = [0.0, 0.0]
        for start in range(0, len(wanted), PIECE):
            part = slice(start, start + PIECE)
            logs = [_predict(one, found[-1][part]) for one, found in zip(self.pair, states, strict=True)]
            for number, log in enumerate(logs):
                losses[number] -= float(log.gather(1, targets[part, None]).sum())
                self.entropy[number] -= float((log.exp() * log).sum())
            self.kl += _kl(logs[1], logs[0])
            self.changed += _different(logs)
        self.losses.append((losses[0], losses[1]))
        self.counts.append(len(wanted))

    def _states(self, model: Any, tokens: Tensor, wanted: Tensor) -> list[Tensor]:
        """Return the activations of each layer at some positions, each (positions, width)."""
        out = model.base_model(input_ids=tokens[None], use_cache=False, output_hidden_states=True)
        # the last one is behind the last norm
        return [state[0][wanted] for state in (*out.hidden_states[:-1], out.last_hidden_state)]

    def _add_layers(self, states: Sequence[list[Tensor]]) -> None:
        layers = len(states[0])
        for sums in (self.cosine, self.lens_kl, self.lens_changed):
            sums.extend([0.0] * (layers - len(sums)))
        for number, (before, after) in enumerate(zip(*states, strict=True)):
            alike = torch.nn.functional.cosine_similarity(before.float(), after.float(), dim=-1)
            self.cosine[number] += float(alike.sum())
            if not self.lens:
                continue
            last = number == layers - 1
            for start in range(0, len(before), PIECE):
                logs = [
                    _predict(one, part if last else _last_norm(one)(part))
                    for one, state in zip(self.pair, (before, after), strict=True)
                    for part in [state[start : start + PIECE]]
                ]
                self.lens_kl[number] += _kl(logs[1], logs[0])
                self.lens_changed[number] += _different(logs)

    def result(self, group: str) -> Predictions:
        count = sum(self.counts)
        both = [sum(one[number] for one in self.losses) / count for number in (0, 1)]
        found = bootstrap([[after - before] for before, after in self.losses], self.counts)
        return Predictions(
            group=group,
            rows=len(self.counts),
            tokens=count,
            kl=self.kl / count,
            changed=self.changed / count,
            entropy=(self.entropy[0] / count, self.entropy[1] / count),
            perplexity=(math.exp(both[0]), math.exp(both[1])),
            loss_change=both[1] - both[0],
            loss_change_ci=found[0] if found else None,
            layers=[
                Layer(number, self.cosine[number] / count, *self._lens(number, count))
                for number in range(len(self.cosine))
            ],
        )

    def _lens(self, number: int, count: int) -> tuple[float | None, float | None]:
        if not self.lens:
            return None, None
        return self.lens_kl[number] / count, self.lens_changed[number] / count


def _predict(model: Any, states: Tensor) -> Tensor:
    """Return log-probabilities of the next token, shape (positions, vocabulary), float32."""
    config = model.config.get_text_config()
    logits = model.get_output_embeddings()(states).float() * _scale(config)
    cap = getattr(config, "final_logit_softcapping", None)
    if cap:  # Gemma 2 and 3n
        logits = torch.tanh(logits / cap) * cap
    return torch.log_softmax(logits, dim=-1)


def _scale(config: Any) -> float:
    """Return what a model multiplies its logits by, as TRL's `distillation_trainer` does."""
    for name in FACTORS:
        if (factor := getattr(config, name, None)) is not None:
            return float(factor)
    factor = float(getattr(config, "logits_scaling", None) or 1)
    return factor if config.model_type == "hyperclovax" else 1 / factor  # Granite and MiniCPM3 divide


def _kl(of: Tensor, against: Tensor) -> float:
    return float((of.exp() * (of - against)).sum().clamp(min=0))


def _different(logs: Sequence[Tensor]) -> float:
    return float((logs[0].argmax(-1) != logs[1].argmax(-1)).sum())


def _last_norm(model: Any) -> Any:
    decoder = model.base_model
    decoder = getattr(decoder, "language_model", decoder)
    return next((found for name in NORMS if (found := getattr(decoder, name, None)) is not None), None)
