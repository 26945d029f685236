"""Keys and values stay within their memory, and rows keep theirs whoever joins and leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_bench.trainer.engine.engine import CHUNK, ROOM, Engine
from mcp_bench.trainer.engine.load import Loaded, choose_caches, load
from mcp_bench.trainer.engine.rows import STEP, RowCache, roomy
from mcp_bench.trainer.engine.sampling import Sampling
from mcp_bench.trainer.engine.sequence import Request
from tests.trainer.engine.test_engine_types import random_checkpoint
from tests.trainer.engine.test_row_attention import LAYERS, model

pytestmark = pytest.mark.component

HEAD = 8 * 4
"""Bytes of one head's dimensions."""


def decode(
    loaded: Loaded, memory: int, requests: list[Request], chunk: int = CHUNK
) -> tuple[list[int], list[int]]:
    """Answer requests with so many bytes for keys and values. Return the rows and the bytes of each pass."""
    tokens: list[int] = []
    held: list[int] = []

    def note(_: Any, __: Any, given: dict[str, Any], made: Any) -> None:
        tokens.append(len(given["input_ids"]))
        kept = [
            getattr(layer, name, None)
            for layer in given["past_key_values"].layers
            for name in ("keys", "values")
        ]
        held.append(sum(one.nbytes for one in kept if one is not None))

    caches, device = choose_caches(loaded.model), torch.device("cpu")
    hook = loaded.model.register_forward_hook(note, with_kwargs=True)
    # a third is for finished requests
    with Engine(
        caches, loaded.tokenizer, (), loaded.parser, device, cache_bytes=memory * 3 // 2, chunk=chunk
    ) as engine:
        made = engine.complete(requests)
    hook.remove()
    assert [len(one.tokens) for one in made] == [request.most_tokens for request in requests]
    return tokens, held


def request(prompt: int, most_tokens: int, token: int = 9) -> Request:
    return Request([token] * prompt, Sampling(temperature=0), most_tokens)


def test_the_room_of_a_long_conversation_is_not_multiplied(tmp_path: Path) -> None:
    folder = random_checkpoint("llama", tmp_path, max_position_embeddings=2048)
    memory = 4000 * 2 * 2 * 2 * HEAD  # layers, keys and values, heads
    long, short = request(1500, 20), [request(20, 150) for _ in range(8)]
    rows, held = decode(load(folder, calls="hermes", device="cpu"), memory, [long, *short])
    assert max(held) <= memory
    assert max(rows) == 8  # once it has left, its room is theirs


def test_growth_of_what_is_being_answered_is_counted(tmp_path: Path) -> None:
    """Two rows of 500 fit, three do not, however short they are when the third one comes."""
    memory = 1100 * 2 * 2 * 2 * HEAD
    folder = random_checkpoint("llama", tmp_path)
    loaded = load(folder, calls="hermes", device="cpu")
    rows, held = decode(loaded, memory, [request(20, 400), request(20, 400), request(20, 5)])
    assert max(held) <= memory
    assert max(rows) == 2


@pytest.mark.parametrize(("prompts", "answers", "chunk"), [
    ((20, 20), (ROOM + 250, ROOM + 300), CHUNK),  # both are being answered
    ((20, 755), (ROOM + 300, 5), 1),  # the second one's prompt is still being read
])  # fmt: skip
def test_a_longer_answer_than_was_counted_waits_and_goes_on(
    prompts: tuple[int, int], answers: tuple[int, int], chunk: int, tmp_path: Path
) -> None:
    folder = random_checkpoint("llama", tmp_path, max_position_embeddings=2048)
    loaded = load(folder, calls="hermes", device="cpu")
    requests, alone = (
        [request(prompts[0], answers[0]), request(prompts[1], answers[1], token=10)] for _ in range(2)
    )
    memory = 2 * roomy(20 + ROOM) * 2 * 2 * 2 * HEAD
    rows, held = decode(loaded, memory, requests, chunk)
    assert max(held) <= memory
    assert max(rows) == 2 if chunk == CHUNK else len(rows) > answers[0] + 500, "both had begun"
    for one in alone:
        decode(loaded, 1 << 30, [one])
    assert [one.done.result().tokens for one in requests] == [one.done.result().tokens for one in alone]


def test_rows_that_grow_do_not_widen_those_that_left(tmp_path: Path) -> None:
    loaded = load(random_checkpoint("llama", tmp_path), calls="hermes", device="cpu")
    _, held = decode(loaded, 1 << 30, [request(20, 800), *(request(20, 4) for _ in range(7))])
    assert held[-1] == roomy(820) * 2 * 2 * 2 * HEAD


def test_models_that_are_decoded_one_by_one_have_the_same_limit(tmp_path: Path) -> None:
    loaded = load(random_checkpoint("qwen3_5_text", tmp_path), calls="hermes", device="cpu")
    caches: Any = choose_caches(loaded.model)
    begin, begun = caches.begin, list[int]()

    def noted(*given: Any) -> None:
        begin(*given)
        begun.append(len(caches))

    caches.begin = noted
    memory = 50 * 2 * 2 * HEAD  # keys and values, heads, of one layer: the other one is linear
    for together in (1, 2, 3):
        begun.clear()
        device, size = torch.device("cpu"), together * memory * 3 // 2
        with Engine(caches, loaded.tokenizer, (), loaded.parser, device, cache_bytes=size) as engine:
            engine.complete([request(40, 10) for _ in range(4)])
        assert max(begun) == together


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.integers(1, STEP + 20)),
        st.tuples(st.just("begin tight"), st.integers(1, STEP + 20)),
        st.tuples(st.just("begin like"), st.integers(0, 3)),
        st.tuples(st.just("remove"), st.integers(0, 3)),
        st.tuples(st.just("step"), st.integers(1, 3)),
    ),
    min_size=2,
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(operations=OPERATIONS)
@torch.inference_mode()
def test_rows_keep_their_tokens(operations: list[tuple[str, int]]) -> None:
    """After any order of joining and leaving, each row gets the scores that it gets alone."""
    one = model("llama")
    rows = RowCache(one, [None] * LAYERS, mask_by_type=False)
    texts: list[torch.Tensor] = []
    random = torch.Generator().manual_seed(0)

    def step() -> torch.Tensor:
        news = torch.randint(64, (len(texts),), generator=random)
        texts[:] = [torch.cat([text, new[None]]) for text, new in zip(texts, news, strict=True)]
        return rows.step(news)

    for operation, number in [*operations, ("begin", 3)]:
        text = torch.randint(64, (number,), generator=random) if "begin" in operation else torch.empty(0)
        if operation == "remove" and number < len(texts):
            rows.remove(number, len(texts))
            texts[number] = texts[-1]
            texts.pop()
        elif operation == "step" and texts:
            for _ in range(number):
                step()
        elif operation == "begin like" and number < len(texts):
            length = len(texts[number]) - 1
            rows.begin_like(number, length, length + 1)
            texts.append(texts[number])
            rows.read(texts[number][length:])
        elif operation in ("begin", "begin tight"):
            columns = [len(other) for other in (*texts, text)]
            if (
                operation == "begin tight" and texts
            ):  # just as much memory as without what other rows have left
                least = len(columns) * roomy(max(columns)) * rows.column_bytes
                assert rows.fits(columns, least)
            rows.begin(None, 0, len(text))
            rows.read(text)
            texts.append(text)
    found = step()
    alone = [one(input_ids=text[None], use_cache=False).logits[0, -1] for text in texts]
    torch.testing.assert_close(found, torch.stack(alone), atol=1e-5, rtol=1e-4)
