"""ShareGPT conversations for LLaMA-Factory, in which turns of user and agent alternate.

https://github.com/hiyouga/LLaMA-Factory/blob/main/data/README.md. Each `human` or `observation` turn is
followed by one `function_call` or `gpt` turn. Parallel calls are a list, their results another one in the
same order, and reasoning is `<think>` before the text. The column `mcp_bench`, which LLaMA-Factory ignores,
holds what the format cannot express: ids of calls, text beside a call, and results after which the agent had
no further turn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from mcp_bench.recorder.formats import Column
from mcp_bench.recorder.formats.dataset_info import NAME, dataset_info
from mcp_bench.recorder.formats.facts import KEY, facts_apart
from mcp_bench.recorder.trajectory import Message, Trajectory


class ShareGPT:
    name = "sharegpt"
    summary = "conversations for LLaMA-Factory, with its dataset_info.json"
    suffix = ".jsonl"
    columns: Mapping[str, Column] = {
        "conversations": "json list",
        "system": "string",
        "tools": "string",
        KEY: "json",
    }

    def row(self, trajectory: Trajectory) -> dict[str, Any]:
        system = [m.content or "" for m in trajectory.messages if m.role == "system"]
        turns: list[dict[str, str]] = []
        apart: dict[str, Any] = {"ids": [], "texts": {}}
        rest = [message for message in trajectory.messages if message.role != "system"]
        for role, group in groupby(rest, key=lambda message: message.role):
            if role == "user" and turns and turns[-1]["from"] == "observation":
                turns.append({"from": "gpt", "value": ""})  # it ended its turn without a word
            turns.append(_turn(role, list(group), len(turns), apart))
        if turns and turns[-1]["from"] in ("human", "observation"):
            apart["unanswered"] = turns.pop()["value"]  # LLaMA-Factory skips a row that ends with it
        return {
            "conversations": turns,
            "system": "\n\n".join(system),
            "tools": json.dumps(
                [tool.function.model_dump() for tool in trajectory.tools], ensure_ascii=False
            ),
            KEY: {
                **facts_apart(trajectory),
                **{key: value for key, value in apart.items() if value or value == ""},
            },
        }

    def companions(self, folder: Path, stem: str, files: Sequence[Path]) -> dict[str, str]:
        return {NAME: dataset_info(folder, stem, files)}


def _turn(role: str, messages: list[Message], number: int, apart: dict[str, Any]) -> dict[str, str]:
    texts = [message.content for message in messages if message.content]
    if role == "user":
        return {"from": "human", "value": "\n\n".join(texts)}
    if role == "tool":
        # only their places say whose they are; recordings of other tools have ids, and any order
        places = {name: at for at, name in enumerate(apart["ids"])}
        in_order = sorted(messages, key=lambda message: places.get(message.tool_call_id, 0))
        results = [message.content or "" for message in in_order]
        one = results[0] if len(results) == 1 else json.dumps(results, ensure_ascii=False)
        return {"from": "observation", "value": one}
    thoughts = [message.reasoning for message in messages if message.reasoning]
    # LLaMA-Factory ends a thought at the first such tag, and stops if what follows is no call
    whole = "\n\n".join(thoughts).replace("</think>", "</ think>")
    thought = f"<think>\n{whole}\n</think>\n\n" if thoughts else ""
    calls = [call for message in messages for call in message.tool_calls]
    if not calls:
        return {"from": "gpt", "value": thought + "\n\n".join(texts)}
    if texts:
        apart["texts"][str(number)] = "\n\n".join(texts)
    apart["ids"] += [call.id for call in calls]
    functions = [{"name": call.function.name, "arguments": call.function.arguments} for call in calls]
    value = json.dumps(functions if len(functions) > 1 else functions[0], ensure_ascii=False)
    # it takes a thought out of an argument, too; in JSON, this is the same text
    return {"from": "function_call", "value": thought + value.replace("<think>", "\\u003cthink>")}
