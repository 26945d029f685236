"""Products of few rows have the same values, whatever the number of rows and their shape."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import linear

from mcp_bench.trainer.engine.few_rows import MOST, multiply_few_rows

pytestmark = pytest.mark.component


class Doubled(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(input)


@settings(max_examples=50)
@given(
    shape=st.lists(st.integers(0, MOST + 2), min_size=1, max_size=3),
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    bias=st.booleans(),
)
def test_the_values_are_those_of_the_layer(shape: list[int], sizes: tuple[int, int], bias: bool) -> None:
    layer = nn.Linear(*sizes, bias=bias)
    rows = torch.randn(*shape, sizes[0])
    multiply_few_rows(layer)
    with torch.no_grad():
        made = layer(rows)
        assert made.shape == (*shape, sizes[1])
        assert made.is_contiguous()
        torch.testing.assert_close(made, linear(rows, layer.weight, layer.bias))


def test_weights_may_change_and_other_layers_stay() -> None:
    first, second = nn.Linear(4, 4), Doubled(4, 4)
    model = nn.Sequential(first, second)
    rows = torch.randn(3, 4)
    with torch.no_grad():
        before = model(rows)
        multiply_few_rows(model)
        torch.testing.assert_close(model(rows), before)
        first.weight.zero_()
        first.bias.zero_()
        torch.testing.assert_close(model(rows), second(torch.zeros(3, 4)))
