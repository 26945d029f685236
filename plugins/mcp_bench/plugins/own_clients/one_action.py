"""The chat agent limited to one action per turn, without text: shows what a harness costs."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_bench.plugins.own_clients.chat import Chat


class OneAction(Chat):
    name = "one-action"
    summary = "The chat agent limited to one tool call per turn, without text: what a harness costs."
    options: Mapping[str, str] = {key: text for key, text in Chat.options.items() if key != "thinking"}
    extra = ("--one-action",)
