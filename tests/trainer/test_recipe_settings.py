"""The list of settings: complete, with defaults that recipes accept, and the page made from it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from mcp_bench.servers.errors import UnknownNameError
from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.recipe_settings import page, settings
from tests.support import ROOT

pytestmark = pytest.mark.component


def test_each_setting_says_what_it_is() -> None:
    every = settings()
    assert {one.key for one in every} >= {"summary", "model.base", "lora.rank", "rl.guards.cut"}
    assert [one.key for one in every if not one.description.endswith(".")] == []


def test_recipes_accept_each_setting_with_its_default() -> None:
    overrides = [f"{one.key}={one.default}" for one in settings() if one.default not in ("required", "-")]
    assert len(overrides) > 50
    _, recipe = load_recipe("tiny-cpu", overrides)
    assert recipe.training.weight_decay == 0


def test_one_setting_and_one_section() -> None:
    [one] = settings("rl.min_p")
    assert (one.values, one.default) == ("number at least 0 below 1", "0.0")
    assert "https://arxiv.org/abs/2407.01082" in one.description
    assert {one.key for one in settings("lora")} == {
        "lora.rank", "lora.alpha", "lora.dropout", "lora.targets"
    }  # fmt: skip
    shown = CliRunner().invoke(train, ["settings", "lora.rank"]).output
    assert shown.startswith("lora.rank  integer above 0; default 32\n    Inner size of the adapters.")
    listed = json.loads(CliRunner().invoke(train, ["settings", "generation", "--json"]).output)
    assert [one["key"] for one in listed][:1] == ["generation.temperature"]
    with pytest.raises(UnknownNameError, match=r"unknown setting 'rl\.gards' \(did you mean rl\.guards"):
        settings("rl.gards")
    with pytest.raises(UnknownNameError, match="unknown setting"):
        settings("rl.min")  # part of a word


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs/reference/recipe-settings.md").read_text(encoding="utf-8") == page(), (
        "run `make docs`"
    )
