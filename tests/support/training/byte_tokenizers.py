"""Byte-level tokenizers, made without the Hub, with a chat template of the test's choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

QWEN_SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
)

QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How Qwen2.5 and Qwen3 divide text before bytes are merged."""

# Like Qwen2.5's: ChatML, calls as JSON in <tool_call>, results in a user turn, history unchanged.
CHATML = """\
{%- if tools %}{{ '<|im_start|>system\\n' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{{ '<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}
{%- if message.role == 'assistant' %}{{ '<|im_start|>assistant\\n' }}{% generation %}
{%- if message.content %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>' + call.function.name + ' ' + (call.function.arguments | tojson) + '</tool_call>' }}
{%- endfor %}{{ '<|im_end|>\\n' }}{% endgeneration %}
{%- else %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

# Like hybrid Qwen3's: an empty reasoning block in the last turn, none in earlier turns.
FORGETFUL = CHATML.replace(
    "{%- if message.content %}",
    "{%- if loop.last %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% if message.content %}",
)


def byte_tokenizer(
    template: str | None, special: tuple[str, ...] = QWEN_SPECIAL, merges: Sequence[tuple[str, str]] = ()
) -> Any:
    """Make a byte-level tokenizer: one token for every byte, special token, or pair that is merged."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {
        token: number for number, token in enumerate([*special, *sorted(pre_tokenizers.ByteLevel.alphabet())])
    }
    vocabulary |= {"".join(pair): len(vocabulary) + number for number, pair in enumerate(merges)}
    byte_level = Tokenizer(models.BPE(vocab=vocabulary, merges=list(merges)))
    byte_level.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    byte_level.decoder = decoders.ByteLevel()
    byte_level.add_special_tokens(list(special))
    made = PreTrainedTokenizerFast(tokenizer_object=byte_level, pad_token=special[0], eos_token="<|im_end|>")
    made.chat_template = template
    return made
