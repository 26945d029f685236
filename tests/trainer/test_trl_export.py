"""Files of `mcp-bench export` train with TRL unchanged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.conversations.align import align
from mcp_bench.recorder.records import EpisodeEnd, EpisodeStart, PlannedEpisode, RunInfo, new_id, now_us
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.trajectory import FunctionCall, FunctionSchema, Message, ToolCall, ToolSchema, Usage
from mcp_bench.servers.contracts import Grade

pytestmark = pytest.mark.system

TEMPLATE = """\
{%- if tools %}{{ '<|system|>' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{{ '<|end|>' }}{% endif %}
{%- for message in messages %}{{ '<|' + message.role + '|>' }}
{%- if message.role == 'assistant' %}{% generation %}
{%- if message.reasoning_content %}{{ '(' + message.reasoning_content + ')' }}{% endif %}
{%- if message.content %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}
{{- '<call>' + call.function.name + ' ' + (call.function.arguments | tojson) + '</call>' }}
{%- endfor %}{{ '<|end|>' }}{% endgeneration %}
{%- else %}{{ message.content + '<|end|>' }}{% endif %}
{%- endfor %}"""

# arguments of different keys and types: Arrow must not merge them into one struct with nulls
CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("get_balance", {}, "1200.5"),
    ("send_money", {"amount": 12.5, "recipient": "DE89", "subject": None, "tags": []}, "sent"),
    ("schedule", {"amount": "all", "when": {"days": [1, 2]}, "recurring": True}, ""),
]


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    slots = [PlannedEpisode(task=f"t{n}", split="train", domain="bank", prompt=f"Pay {n}.") for n in range(4)]
    slots += [slot.model_copy(update={"repeat": 1}) for slot in slots[2:]]
    info = RunInfo(
        id=new_id("run"), created_us=now_us(), benchmark="b", benchmark_version="1", agent="a",
        agent_version="1", isolation="none", home="sealed", tools="mcp-only", plan=slots,
    )  # fmt: skip
    with RunFolder.create(info) as folder:
        for number, slot in enumerate(slots):
            calls, partial = (CALLS[:number], 1.0) if not slot.repeat else (CALLS[:1], 0.2)
            _record(folder, slot, calls, with_usage=number % 2 == 0, partial=partial)
    out = tmp_path / "train.jsonl"
    result = CliRunner().invoke(export, ["--min-partial", "0.5", "--format", "trl", "--out", str(out)])
    assert result.exit_code == 0, result.exception
    return out


def _record(
    folder: RunFolder,
    slot: PlannedEpisode,
    calls: list[tuple[str, dict[str, Any], str]],
    *,
    with_usage: bool,
    partial: float,
) -> None:
    episode = new_id("ep")
    schemas = [
        ToolSchema(
            function=FunctionSchema(name=name, parameters={"type": "object", "properties": {name: {}}})
        )
        for name, _, _ in CALLS
    ]
    facts = slot.model_dump(exclude={"max_calls", "timeout", "limits", "needs", "error"})
    folder.recording.begin_episode(EpisodeStart(id=episode, started_us=now_us(), tools=schemas, **facts))
    transcript = []
    for rpc_id, (name, arguments, text) in enumerate(calls):
        params = {"name": name, "arguments": arguments}
        answer = {"content": [{"type": "text", "text": text}]}
        for side, body in (
            ("client", {"id": rpc_id, "method": "tools/call", "params": params}),
            ("server", {"id": rpc_id, "result": answer}),
        ):
            folder.recording.store_frame(episode, 1, side, json.dumps(body).encode())  # type: ignore[arg-type]
        call = ToolCall(id=f"c{rpc_id}", function=FunctionCall(name=name, arguments=arguments))
        transcript.append(Message(role="assistant", reasoning="hm", tool_calls=[call]))
    transcript.append(Message(role="assistant", content="Paid."))
    messages = align(slot.prompt, transcript, folder.recording.recorded_calls(episode))
    usage = Usage(input_tokens=3) if with_usage else None
    end = EpisodeEnd(termination="agent_exit", usage=usage, ended_us=now_us())
    folder.recording.end_episode(episode, end, messages)
    grade = Grade(partial=partial, strict=partial == 1, grader_version="1")
    folder.grades.put(episode, grade, None, now_us())


@pytest.fixture
def tokenizer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make a byte-level tokenizer without merges."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = [
        "<|pad|>",
        "<|end|>",
        "<|system|>",
        "<|user|>",
        "<|assistant|>",
        "<|tool|>",
        "<call>",
        "</call>",
    ]
    vocabulary = {token: number for number, token in enumerate([*special, *alphabet])}
    byte_level = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    byte_level.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    byte_level.decoder = decoders.ByteLevel()
    byte_level.add_special_tokens(special)
    made = PreTrainedTokenizerFast(tokenizer_object=byte_level, pad_token="<|pad|>", eos_token="<|end|>")
    made.chat_template = TEMPLATE
    return made


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _as_datasets(path: Path, cache: Path) -> dict[str, Any]:
    from datasets import Dataset, Features, Json, List, load_dataset

    rows = [{"messages": row["messages"], "tools": row["tools"]} for row in _rows(path)]
    features = Features({"messages": List(Json()), "tools": List(Json())})
    return {
        "file": load_dataset("json", data_files=str(path), split="train", cache_dir=str(cache)),
        "rows": Dataset.from_list(rows, features=features),
    }


@pytest.mark.parametrize("way", ["file", "rows"])
def test_an_exported_file_trains_with_trl(exported: Path, tokenizer: Any, tmp_path: Path, way: str) -> None:
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM
    from trl import SFTConfig, SFTTrainer

    dataset = _as_datasets(exported, tmp_path / "cache")[way]
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=4096,
        )
    )  # fmt: skip
    before = [parameter.detach().clone() for parameter in model.parameters()]
    settings = SFTConfig(
        output_dir=str(tmp_path / "out"), max_steps=2, per_device_train_batch_size=2, learning_rate=1e-2,
        max_length=4096, assistant_only_loss=True, bf16=False, use_cpu=True,
        activation_checkpointing=False, report_to=[], save_strategy="no", logging_steps=1,
    )  # fmt: skip
    trainer = SFTTrainer(model=model, args=settings, train_dataset=dataset, processing_class=tokenizer)

    trained = [_seen_and_learned(row, tokenizer) for row in trainer.train_dataset]
    expected = [_expected(row) for row in _rows(exported)]
    assert sorted(trained) == sorted(expected)

    outcome = trainer.train()
    assert outcome.global_step == 2
    assert outcome.training_loss > 0
    assert any(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


@pytest.mark.full
def test_exported_pairs_train_with_trl(exported: Path, tokenizer: Any, tmp_path: Path) -> None:
    import torch
    from datasets import load_dataset
    from transformers import Qwen2Config, Qwen2ForCausalLM
    from trl import DPOConfig, DPOTrainer

    out = tmp_path / "pairs.jsonl"
    result = CliRunner().invoke(export, ["--pairs", "--out", str(out)])
    assert result.exit_code == 0, result.exception
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=8192,
    )  # fmt: skip
    settings = DPOConfig(
        output_dir=str(tmp_path / "out"), max_steps=2, per_device_train_batch_size=1, learning_rate=1e-2,
        max_length=8192, bf16=False, use_cpu=True, activation_checkpointing=False, report_to=[],
        save_strategy="no", logging_steps=1,
    )  # fmt: skip
    dataset = load_dataset("json", data_files=str(out), split="train", cache_dir=str(tmp_path / "cache"))
    torch.manual_seed(0)
    model, reference = Qwen2ForCausalLM(config), Qwen2ForCausalLM(config)
    reference.load_state_dict(model.state_dict())
    trainer = DPOTrainer(
        model=model, ref_model=reference, args=settings, train_dataset=dataset, processing_class=tokenizer
    )
    (row, *_), wanted = trainer.train_dataset, _rows(out)[0]
    for side in ("chosen", "rejected"):
        seen, _ = _expected({"messages": wanted["prompt"] + wanted[side], "tools": wanted["tools"]})
        assert tokenizer.decode(row["prompt_ids"] + row[f"{side}_ids"]) == seen
    outcome = trainer.train()
    assert (outcome.global_step, outcome.training_loss > 0) == (2, True)


def _seen_and_learned(row: dict[str, Any], tokenizer: Any) -> tuple[str, str]:
    """Return the text that the model sees, and the part that it is trained on."""
    learned = [label for label in row["labels"] if label != -100]
    return tokenizer.decode(row["input_ids"]), tokenizer.decode(learned)


def _expected(row: dict[str, Any]) -> tuple[str, str]:
    seen = "<|system|>" + "".join(json.dumps(tool) for tool in row["tools"]) + "<|end|>"
    learned = ""
    for message in row["messages"]:
        seen += f"<|{message['role']}|>"
        text = message.get("content", "")
        if message["role"] == "assistant":
            reasoning = f"({message['reasoning_content']})" if "reasoning_content" in message else ""
            calls = [call["function"] for call in message.get("tool_calls", [])]
            said = [f"<call>{call['name']} {json.dumps(call['arguments'])}</call>" for call in calls]
            text = reasoning + text + "".join(said)
            learned += text + "<|end|>"
        seen += text + "<|end|>"
    return seen, learned


def test_exported_arguments_equal_the_recording(exported: Path) -> None:
    calls = [
        c["function"] for row in _rows(exported) for m in row["messages"] for c in m.get("tool_calls", [])
    ]
    assert {call["name"]: call["arguments"] for call in calls} == {name: args for name, args, _ in CALLS}
