"""Small random models of each type: the engine's greedy answers are those of `generate`, token for token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.engine.engine import Engine
from mcp_bench.trainer.engine.load import choose_caches, load
from mcp_bench.trainer.engine.rows import RowCache
from mcp_bench.trainer.engine.sampling import Sampler, Sampling, choose
from mcp_bench.trainer.engine.separate import SeparateCaches
from mcp_bench.trainer.engine.sequence import Completion, Request
from tests.support.training.byte_tokenizers import CHATML, byte_tokenizer

pytestmark = pytest.mark.component

SIZES = {
    "vocab_size": 264,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "bos_token_id": None,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
WINDOWED = {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}
MOE = {"num_local_experts": 4, "num_experts_per_tok": 2}
TYPES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"sliding_window": 16},
    "qwen3": {},
    "gemma3_text": WINDOWED,
    "gpt_oss": WINDOWED | MOE,
    "glm4_moe": {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_group": 1,
                 "topk_group": 1, "first_k_dense_replace": 1},
    "qwen3_5_text": {"linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 8,
                     "linear_value_head_dim": 8, "layer_types": ["linear_attention", "full_attention"]},
    # from 33 tokens on, all positions rotate in another way
    "phi3": {"original_max_position_embeddings": 32,
             "rope_parameters": {"rope_type": "longrope", "rope_theta": 10_000.0, "short_factor": [1.0] * 4,
                                 "long_factor": [4.0, 8.0, 16.0, 32.0],
                                 "original_max_position_embeddings": 32}},
}  # fmt: skip
SEPARATE = ("qwen3_5_text", "phi3")
"""Types that are decoded one by one."""
NEW = 12


def random_checkpoint(kind: str, folder: Path, **changed: Any) -> Path:
    torch.manual_seed(1)
    config = AutoConfig.for_model(kind, **{**SIZES, **TYPES.get(kind, {}), **changed})
    model = AutoModelForCausalLM.from_config(config).float()
    with torch.no_grad():  # far from zero, so that the likeliest token is clearly the likeliest
        for parameter in model.parameters():
            parameter.mul_(4 if parameter.dim() > 1 else 1)
    model.save_pretrained(folder)
    byte_tokenizer(CHATML).save_pretrained(folder)
    return folder


def greedy(prompt: list[int]) -> Request:
    return Request(prompt, Sampling(temperature=0), NEW)


@pytest.mark.parametrize("kind", TYPES)
def test_greedy_answers_are_those_of_generate(kind: str, tmp_path: Path) -> None:
    """Alone, together, with and without a shared prefix, beyond the sliding window."""
    loaded = load(random_checkpoint(kind, tmp_path), calls="hermes", device="cpu")
    separate = kind in SEPARATE
    assert isinstance(choose_caches(loaded.model), SeparateCaches if separate else RowCache)
    random = torch.Generator().manual_seed(2)
    prompts = [torch.randint(7, 260, (length,), generator=random).tolist() for length in (3, 40, 21)]
    prompts += [prompts[1][:30] + prompts[0], prompts[1]]
    expected = []
    for prompt in prompts:
        made = loaded.model.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=NEW, do_sample=False, pad_token_id=0,
        )  # fmt: skip
        expected.append(tuple(made[0, len(prompt) :].tolist()))
    with loaded.engine as engine:
        together = engine.complete([greedy(prompt) for prompt in prompts])
        again = engine.complete([greedy(prompt) for prompt in prompts])
        # the next turn of a conversation: the whole history is known
        longer = [*prompts[1], *expected[1][:-1], 9, 10]
        [following] = engine.complete([greedy(longer)])
    assert [one.tokens for one in together] == expected == [one.tokens for one in again]
    known = 0 if separate else len(longer) - 2
    assert following.cached == known
    assert [one.cached for one in again] == ([0] * 5 if separate else [len(prompt) - 1 for prompt in prompts])


def test_the_settings_of_one_request_do_not_change_the_answer_to_another(tmp_path: Path) -> None:
    """Decoded together, requests with different settings get what each gets alone."""
    loaded = load(random_checkpoint("qwen3", tmp_path), calls="hermes", device="cpu")
    random = torch.Generator().manual_seed(3)
    settings = [
        (Sampling(temperature=temperature, repetition_penalty=penalty, seed=seed, **cuts), top, mode)
        for temperature in (0.0, 0.7)
        for penalty in (1.0, 1.3)
        for cuts in ({"top_p": 0.6}, {"min_p": 0.2, "top_k": 5})
        for top, mode in ((None, "raw_logprobs"), (3, "policy_logprobs"), (0, "raw_logprobs"))
        for seed in (1, 2)
    ]
    prompts = [torch.randint(7, 260, (5 + at % 4,), generator=random).tolist() for at in range(len(settings))]

    def asked() -> list[Request]:
        return [
            Request(prompt, sampling, NEW, top_logprobs=top, logprobs_mode=mode)
            for prompt, (sampling, top, mode) in zip(prompts, settings, strict=True)
        ]

    with loaded.engine as engine:
        together = engine.complete(asked())
        alone = [engine.complete([one])[0] for one in asked()]
    assert [one.tokens for one in together] == [one.tokens for one in alone]
    for one, other, (_, top, _) in zip(together, alone, settings, strict=True):
        assert len(one.chosen) == (0 if top is None else len(one.tokens))
        for found, expected in zip(one.chosen, other.chosen, strict=True):
            assert found.logprob == pytest.approx(expected.logprob, abs=1e-4)
            assert [token for token, _ in found.top] == [token for token, _ in expected.top]
            assert len(found.top) == top
    assert len({one.tokens for one in together}) > len(settings) // 2  # seeds, cuts and penalties matter


def test_16_bits_leave_the_rotary_frequencies_in_32(tmp_path: Path) -> None:
    """Rounded, they turn positions in the hundreds by radians too far."""
    folder = random_checkpoint("llama", tmp_path, max_position_embeddings=2048)
    ours = load(folder, calls="hermes", device="cpu", dtype="bfloat16").model
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    assert ours.dtype == torch.bfloat16
    assert {one.dtype for name, one in ours.named_buffers() if "inv_freq" in name} == {torch.float32}
    text = torch.randint(264, (1, 1500), generator=torch.Generator().manual_seed(4))
    with torch.inference_mode():
        found, expected = (model(input_ids=text).logits[0, 500:] for model in (ours, theirs))
    assert torch.equal(found, expected)


def test_a_model_that_ignores_the_cache_is_refused(tmp_path: Path) -> None:
    """Mamba's takes another argument, and each token would be the first one."""
    folder = random_checkpoint("mamba", tmp_path, state_size=4)
    with pytest.raises(WrongUseError, match="cannot decode models of type mamba"):
        load(folder, calls="hermes", device="cpu")


def test_dynamic_rotation_ends_at_the_models_positions(tmp_path: Path) -> None:
    dynamic = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 4.0}
    folder = random_checkpoint("llama", tmp_path, rope_parameters=dynamic)
    with pytest.raises(WrongUseError, match="--max-model-len 513: beyond its 512 positions"):
        load(folder, calls="hermes", device="cpu", max_model_len=513)
    assert load(folder, calls="hermes", device="cpu").positions == 512


def test_learned_positions_are_the_last_ones(tmp_path: Path) -> None:
    """A position beyond them would fail, with all requests that are decoded together."""
    folder = random_checkpoint("gpt2", tmp_path)
    with pytest.raises(WrongUseError, match="513: beyond its 512 positions, this model has none"):
        load(folder, calls="hermes", device="cpu", max_model_len=513)
    assert load(folder, calls="hermes", device="cpu", max_model_len=512).positions == 512


def test_a_temperature_near_0_takes_the_most_likely_token() -> None:
    """Scores that are divided by it are infinite, all of them."""
    scores = torch.tensor([[1.0, 9.0, 3.0]])
    for mode in ("policy_logprobs", "processed_logprobs", "raw_logprobs"):
        sampler = Sampler(Sampling(temperature=1e-40, seed=1), top_logprobs=1, mode=mode)
        [chosen] = choose([sampler], scores, [[]], torch.tensor([[True, True, False]]))
        assert chosen.token == 1 and chosen.logprob == pytest.approx(0, abs=0.01)


def test_a_seed_decides_whatever_else_is_decoded(tmp_path: Path) -> None:
    loaded = load(random_checkpoint("llama", tmp_path), calls="hermes", device="cpu")

    def sampled(seed: int, prompt: list[int]) -> Request:
        return Request(prompt, Sampling(temperature=0.8, top_p=0.9, top_k=50, seed=seed), NEW)

    def tokens(made: list[Completion]) -> list[tuple[int, ...]]:
        return [one.tokens for one in made]

    with loaded.engine as engine:
        alone = tokens(engine.complete([sampled(5, [9, 8, 7])]))
        others = [sampled(seed, [20 + seed] * (3 + seed)) for seed in range(6)]
        assert tokens(engine.complete([*others, sampled(5, [9, 8, 7])]))[-1:] == alone
        assert tokens(engine.complete([sampled(6, [9, 8, 7])])) != alone


@pytest.mark.parametrize("kind", ["llama", "qwen3_5_text"])
def test_a_prompt_that_cannot_be_read_ends_no_other_answer(kind: str, tmp_path: Path) -> None:
    loaded = load(random_checkpoint(kind, tmp_path), calls="hermes", device="cpu")
    good, wrong = [[9, 8, 7], [7, 8, 9]], greedy([9, 8, 9999])
    last = greedy(good[1])
    waiting = [last, wrong]

    def submit_the_others(_: str) -> None:
        while waiting:
            engine.submit(waiting.pop())

    with loaded.engine as engine:
        alone = [one.tokens for one in engine.complete([greedy(one) for one in good])]
        first = Request(good[0], Sampling(temperature=0), NEW, on_text=submit_the_others)
        [answer] = engine.complete([first])
        with pytest.raises(IndexError):
            wrong.done.result(60)
        assert [answer.tokens, last.done.result(60).tokens] == alone


def test_what_is_kept_has_a_limit(tmp_path: Path) -> None:
    folder = random_checkpoint("llama", tmp_path)
    one_token = 2 * 2 * 2 * 8 * 4  # layers, keys and values, heads, dimensions, bytes
    loaded = load(folder, calls="hermes", device="cpu", cache_gib=3 * 60 * one_token / (1 << 30))
    first, second = [9] * 40, [8] * 40
    with loaded.engine as engine:
        for prompt, known in ((first, 0), (first, 39), (second, 0), (second, 39), (first, 0)):
            assert engine.complete([greedy(prompt)])[0].cached == known


def test_what_is_kept_can_be_forgotten(tmp_path: Path) -> None:
    loaded = load(random_checkpoint("llama", tmp_path), calls="hermes", device="cpu")
    with loaded.engine as engine:
        for known in (0, 39):
            assert engine.complete([greedy([9] * 40)])[0].cached == known
        engine.forget()
        assert engine.complete([greedy([9] * 40)])[0].cached == 0


def test_a_cancelled_request_frees_its_place(tmp_path: Path) -> None:
    loaded = load(random_checkpoint("llama", tmp_path), calls="hermes", device="cpu", batch=1)
    endless = Request([9], Sampling(temperature=1, seed=1), 10**9)
    endless.on_text = lambda text: endless.done.cancel()
    with loaded.engine as engine:
        engine.submit(endless)
        assert len(engine.complete([greedy([9, 8])])) == 1
    assert endless.done.cancelled()


class Watched:
    """Caches that note how many tokens of prompts are read between two steps."""

    def __init__(self, caches: Any) -> None:
        self._caches = caches
        self.between: list[int] = [0]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._caches, name)

    def __len__(self) -> int:
        return len(self._caches)

    def read(self, tokens: torch.Tensor) -> torch.Tensor:
        self.between[-1] += len(tokens)
        scores: torch.Tensor = self._caches.read(tokens)
        return scores

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        self.between.append(0)
        scores: torch.Tensor = self._caches.step(tokens)
        return scores


def test_a_long_prompt_does_not_stop_the_others(tmp_path: Path) -> None:
    loaded = load(random_checkpoint("llama", tmp_path), calls="hermes", device="cpu")
    random = torch.Generator().manual_seed(3)
    short, long = ([*torch.randint(7, 260, (length,), generator=random).tolist()] for length in (4, 400))
    caches = Watched(choose_caches(loaded.model))
    parser, device = loaded.parser, torch.device("cpu")
    first, second = Request(short, Sampling(temperature=0), 60), greedy(long)
    with Engine(caches, loaded.tokenizer, (), parser, device, chunk=16) as engine:
        answers = engine.complete([first, second])
    assert max(caches.between) <= 16 + len(short)
    assert sum(caches.between) == 404
    with loaded.engine as whole:
        assert [one.tokens for one in whole.complete([greedy(long)])] == [answers[1].tokens]
