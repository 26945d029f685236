"""`transformers serve` for one checkpoint, put right where it would serve another model than was trained.

Run as `python -m mcp_bench.trainer.serving.transformers_server PARSER MAX_LENGTH serve MODEL ...`, in a
folder where MODEL is a link to the checkpoint. PARSER says how calls are written, as vLLM names it;
MAX_LENGTH is in tokens, 0 for the model's own. What is changed, and why, is in `faithful` and `batches`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from mcp_bench.trainer.serving.batches import BatchingManager
from mcp_bench.trainer.serving.faithful import (
    TolerantParser,
    openai_errors,
    sampled_when_asked,
    text_when_malformed,
    whole_messages,
)
from mcp_bench.trainer.serving.families import JSON_CALLS, TAGGED_CALLS

WRITES_LIKE = {JSON_CALLS: "qwen3", TAGGED_CALLS: "qwen3_5"}
"""A family, by its `model_type`, whose calls transformers knows how to read."""


def response_template(parser: str) -> dict[str, Any]:
    """Return how transformers reads the answers of models that write calls that way."""
    known = import_module("transformers.cli.serving.utils")._RESPONSE_TEMPLATE_FALLBACKS
    return next(dict(template) for types, template in known.items() if WRITES_LIKE[parser] in types)


def put_right(parser: str, max_length: int) -> None:
    """Change `transformers serve` in this process. Its command takes the names up when it runs."""
    parts: dict[str, Any] = {
        name: import_module(f"transformers.cli.serving.{name}")
        for name in ("utils", "model_manager", "chat_completion", "response", "server")
    }
    original: Any = parts["model_manager"].ModelManager

    class Manager(original):  # type: ignore[misc]
        """Lists the model it has (the original one lists the hub's cache), and reads its calls as told."""

        def _load_processor(self, *args: Any, **kwargs: Any) -> Any:
            processor = super()._load_processor(*args, **kwargs)
            tokenizer = getattr(processor, "tokenizer", processor)
            tokenizer.response_template = response_template(parser)
            return processor

        def get_gen_models(self) -> list[dict[str, Any]]:
            return [{"id": self.force_model, "object": "model", "created": 0, "owned_by": "mcp-bench"}]

    BatchingManager.max_length = max_length or None
    handler: Any = parts["utils"].BaseHandler
    changes: list[tuple[Any, str, Any]] = [
        (parts["model_manager"], "ModelManager", Manager),
        (parts["utils"], "GenerateManager", BatchingManager),
        (parts["server"], "build_server", openai_errors(parts["server"].build_server)),
        (handler, "_build_generation_config", sampled_when_asked(handler._build_generation_config)),
    ]
    convert = "get_processor_inputs_from_messages"
    changes.append((handler, convert, staticmethod(whole_messages(getattr(handler, convert)))))
    for api in (parts["chat_completion"], parts["response"]):
        parse = text_when_malformed(api.parse_assistant_message)
        changes.append((api, "parse_assistant_message", parse))
        changes.append((api, "build_response_parser", _tolerant(api.build_response_parser)))
    for owner, name, value in changes:
        setattr(owner, name, value)


def _tolerant(build: Any) -> Any:
    def built(*args: Any, **kwargs: Any) -> Any:
        parser = build(*args, **kwargs)
        return None if parser is None else TolerantParser(parser)

    return built


def main() -> None:
    parser, max_length = sys.argv[1], int(sys.argv[2])
    sys.argv = ["transformers", *sys.argv[3:]]
    put_right(parser, max_length)
    import_module("transformers.cli.transformers").main()


if __name__ == "__main__":
    main()
