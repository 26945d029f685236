"""The settings of learning from reward: the section `rl` of a recipe."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.methods import Algorithm, Learning
from mcp_bench.trainer.recipe_section import Finite, FiniteOrZero, Section

OF_ADVANTAGES = ("below", "imitate", "clip_below", "clip_above")
UNUSED: dict[str, tuple[str, ...]] = {
    "rft": OF_ADVANTAGES,
    "sdpo": OF_ADVANTAGES,
    "opd": OF_ADVANTAGES,
    "cispo": ("clip_below",),
}
"""Settings that have no effect with an algorithm."""


class Guards(Section):
    """When a run is stopped. Each message names the step, its episodes and the last good checkpoint."""

    mismatch: PositiveFloat = 1e-3
    """Largest mean difference of log-probabilities of engine and trainer. Use 0.05 for 16 bits; with `ahead`,
    more, since the weights of the trainer are one update newer."""
    kl_times: PositiveFloat = 3.0
    """The KL divergence to the start may be this many times its median so far."""
    kl_least: NonNegativeFloat = 0.2
    """Up to this divergence, in nats a token, a policy may go in any case. It begins at 0 and has to grow."""
    entropy_least: float = Field(default=0.1, ge=0, lt=1)
    """Entropy against that of the first step: below this share the policy has collapsed."""
    entropy_most: float = Field(default=3.0, gt=1)
    """Entropy against that of the first step: above this multiple, the policy writes nearly at random."""
    flat: float = Field(default=0.8, gt=0, le=1)
    """Share of flat groups that is too high when it lasts for `flat_steps` steps."""
    flat_steps: PositiveInt = 10
    """How many steps in a row may have too many flat groups."""
    cut: float = Field(default=0.3, gt=0, le=1)
    """Share of attempts that a limit of tokens ended."""
    invalid: float = Field(default=0.1, gt=0, le=1)
    """Share of invalid episodes."""
    gap: float = 0.0
    """Of `sdpo`: how much more probable the teacher has to find the tokens of solved attempts than the policy
    does, in nats a token. It is checked before the first update, and then over `gap_steps` steps."""
    gap_steps: PositiveInt = 5
    """Over how many steps the mean gap is taken."""
    calls: float = Field(default=0.1, ge=0, lt=1)
    """Calls per attempt against the first step: below this share tool use has died out."""


class Distillation(Section):
    """The loss of `sdpo` and `opd`: how far the policy is from its teacher."""

    alpha: float = Field(default=1.0, ge=0, le=1)
    """1: reverse KL divergence; 0: forward; between them: both, from their mixture."""
    top: PositiveInt | None = None
    """Compare the most probable tokens only, and the rest as one. Default: the whole vocabulary."""
    teacher: Literal["frozen", "slow"] = "slow"
    """Of `sdpo`: the start, or an average of the policy over the last updates."""
    follow: float = Field(default=0.05, gt=0, lt=1)
    """How far a slow teacher goes towards the policy with each step."""


class RolloutEngine(Section):
    """What samples the attempts."""

    kind: Literal["torch", "vllm"] = "torch"
    """torch: our own engine, in the trainer's process. vllm: a server, started for the run."""
    devices: tuple[NonNegativeInt, ...] = ()
    """The GPUs of vLLM, which splits each layer over them. Choose others than the trainer's."""
    max_model_len: PositiveInt | None = None
    """Most tokens of a conversation. Default: the model's positions."""
    arguments: tuple[str, ...] = ()
    """Further arguments of `vllm serve`, such as `--gpu-memory-utilization=0.8`."""


class RL(Section):
    groups: PositiveInt = 8
    """Tasks of a step."""
    attempts: int = Field(default=8, ge=2)
    """Attempts at each task."""
    refills: int = Field(default=1, ge=0)
    """How often flat groups of a step are replaced by other tasks."""
    temperature: Finite = 1.0
    """Of the attempts: scores are divided by it before a token is drawn."""
    min_p: float = Field(default=0.0, ge=0, lt=1)
    """Tokens that are less than this fraction as likely as the most likely one are not sampled, and
    the loss by advantage leaves them out, too (https://arxiv.org/abs/2407.01082). Needs the engine `torch`,
    and an algorithm without a teacher."""
    max_tokens: PositiveInt = 256
    """Limit of each answer."""
    constrain_calls: bool = False
    """Hold the calls of the attempts to the tools' schemas, so that a model that often writes broken ones
    finds the right ones, too. The loss is that of the model alone: it learns to write them by itself, and is
    measured by itself. Needs the engine `torch`."""
    learning_rate: Finite = 1e-6
    """In place of `training.learning_rate`, which is meant for imitation."""
    muon_learning_rate: Finite = 6e-3
    """For the matrices inside the layers, if the recipe's optimizer is `muon`."""
    warmup: int = Field(default=3, ge=0)
    """Steps in which the rate rises."""
    decay: float = Field(default=0.7, ge=0, le=1)
    """The part of the rate that is gone at the last step, linearly."""
    ahead: Literal[0, 1] = 0
    """1: the next step's attempts are made while this one is learned from, with weights one update older. The
    engine needs weights of its own: vLLM, or several devices."""
    minibatches: PositiveInt = 1
    """Updates of each pass: each takes one part of the rows."""
    updates: PositiveInt = 1
    """Passes over the rows of a step."""
    clip_below: float = Field(default=0.2, gt=0, lt=1)
    """A token that has become less probable by this share since it was sampled is not pushed further down."""
    clip_above: PositiveFloat = 0.28
    """A token that has become more probable by this share is not pushed further up. DAPO has such asymmetric
    bounds (https://arxiv.org/abs/2503.14476). With `gspo`, both bounds are of the mean ratio of a sequence,
    which moves far less: its paper has 0.0003 below and 0.0004 above."""
    distrust: PositiveFloat = 0.2
    """Tokens whose probability in the trainer differs by more from the engine's are left out of the losses by
    advantage and by teacher. The cross-entropy of `rft` has them."""
    below: float = Field(default=1.0, ge=0, le=1)
    """Weight of attempts that earned less than the mean of their group. They push probability away from what
    was sampled, to anything else: with a low temperature and many right tokens in a row, such as names that
    are copied, that makes mistakes. 0: only better attempts count."""
    imitate: FiniteOrZero = 0.0
    """Weight of the cross-entropy of solved attempts, beside the loss by advantage (the positive-example loss
    of VAPO, https://arxiv.org/abs/2504.05118). It also counts on the attempts of groups in which all are
    solved: what is solved already is then not forgotten."""
    kl: FiniteOrZero = 0.0
    """Weight of the KL divergence to the start, which also counts on the attempts of flat groups: what is
    not learned is then not forgotten. With `rft`, it counts on solved attempts only, and with `sdpo` on those
    with a hint. It is watched in any case."""
    row_tokens: PositiveInt = 8192
    """Most tokens of a micro-batch, with padding."""
    save_every: PositiveInt = 5
    """Steps between checkpoints."""
    engine: RolloutEngine = RolloutEngine()
    distillation: Distillation = Distillation()
    guards: Guards = Guards()


def check_used(algorithm: Algorithm | Learning, rl: RL) -> None:
    """Refuse settings that an algorithm has no use for.

    Raises:
        WrongUseError: there is one.
    """
    if rl.min_p and algorithm in ("sdpo", "opd"):
        raise WrongUseError(
            f"rl.min_p={rl.min_p:g}: {algorithm} compares policy and teacher on all tokens, so none may be "
            "left out: use rl.min_p=0"
        )
    if algorithm not in ("sdpo", "opd") and rl.distillation != Distillation():
        raise WrongUseError(f"rl.distillation has no effect with {algorithm}: leave it out")
    own = Distillation(alpha=rl.distillation.alpha, top=rl.distillation.top)
    if algorithm == "opd" and rl.distillation != own:
        raise WrongUseError(
            "rl.distillation.teacher and rl.distillation.follow have no effect with opd: its teacher "
            "stays as it is. Leave them out"
        )
    for name in UNUSED.get(algorithm, ()):
        value, default = getattr(rl, name), RL.model_fields[name].default
        if value != default:
            raise WrongUseError(
                f"rl.{name}={value:g} has no effect with {algorithm}: use rl.{name}={default:g}"
            )
