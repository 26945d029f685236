"""Rows of very different lengths are attended to one by one, and get what one product would give."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModelForCausalLM

from mcp_bench.trainer.engine import row_attention
from mcp_bench.trainer.engine.row_attention import attend_by_rows, takes_row_lengths
from mcp_bench.trainer.engine.rows import RowCache

pytestmark = pytest.mark.component

LAYERS = 2
COLUMN = 2 * 2 * 8 * 4
"""Bytes of keys and values of one token in one layer: two heads of eight dimensions."""


@pytest.fixture(autouse=True, scope="module")
def short_rows_are_worth_it() -> Iterator[None]:
    """Ten columns a row are enough for rows of their own, in place of thousands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_attention, "WORTH", 10 * COLUMN)
        yield


@cache
def model(kind: str, attention: str = "sdpa") -> Any:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        kind, vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=LAYERS,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, pad_token_id=0, eos_token_id=2,
        attn_implementation=attention,
    )  # fmt: skip
    made = AutoModelForCausalLM.from_config(config).float().eval()
    attend_by_rows(made)
    return made


@torch.inference_mode()
def scores(one: Any, lengths: list[int]) -> tuple[torch.Tensor, list[list[int] | None]]:
    """Return the scores of a step after prompts of these lengths, and the lengths that the model was given."""
    passed: list[list[int] | None] = []
    hook = one.register_forward_pre_hook(
        lambda _, __, given: passed.append(given.get("row_lengths")), with_kwargs=True
    )
    rows = RowCache(one, [None] * LAYERS, mask_by_type=False)
    random = torch.Generator().manual_seed(sum(lengths))
    for length in lengths:
        rows.begin(None, 0, length + 1)
        rows.read(torch.randint(64, (length,), generator=random))
    passed.clear()
    found = rows.step(torch.randint(64, (len(lengths),), generator=random))
    hook.remove()
    return found, passed


@settings(max_examples=30, deadline=None)
@given(
    kind=st.sampled_from(["llama", "qwen3", "gemma3_text"]),
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=5),
)
@example("llama", [3, 40, 4])
@example("llama", [40, 39, 38])
def test_each_row_gets_the_scores_that_it_gets_alone(kind: str, lengths: list[int]) -> None:
    found, _ = scores(model(kind), lengths)
    random = torch.Generator().manual_seed(sum(lengths))
    prompts = [torch.randint(64, (length,), generator=random) for length in lengths]
    news = torch.randint(64, (len(lengths),), generator=random)
    with torch.inference_mode():
        alone = [
            model(kind)(input_ids=torch.cat([prompt, new[None]])[None], use_cache=False).logits[0, -1]
            for prompt, new in zip(prompts, news, strict=True)
        ]
    torch.testing.assert_close(found, torch.stack(alone), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("lengths", "passed"), [([3, 40, 4], [4, 41, 5]), ([20, 41], [21, 42]), ([20, 40], None), ([7], None)]
)
def test_only_rows_of_very_different_lengths_are_taken_one_by_one(
    lengths: list[int], passed: list[int] | None
) -> None:
    assert scores(model("llama"), lengths)[1] == [passed]


def test_a_model_with_another_attention_stays_as_it_is() -> None:
    eager = model("llama", "eager")
    assert not takes_row_lengths(eager)
    assert scores(eager, [3, 40, 4])[1] == [None]
