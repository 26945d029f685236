"""`transformers serve` for one checkpoint, with fixes so that the model is served as it was trained.

Run as `python -m mcp_bench.trainer.serving.transformers_server PARSER MAX_LENGTH serve MODEL ...`, in a
folder where MODEL is a link to the checkpoint. PARSER is vLLM's name of the tool call parser. MAX_LENGTH is
in tokens; 0 is the model's maximum. See `faithful` and `batches` for the fixes.
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
from mcp_bench.trainer.serving.require_key import RequireKey

WRITES_LIKE = {JSON_CALLS: "qwen3", TAGGED_CALLS: "qwen3_5"}
"""For each parser, a `model_type` whose calls transformers can parse."""


def response_template(parser: str) -> dict[str, Any]:
    """Return transformers' template for parsing answers with calls in the parser's form."""
    known = import_module("transformers.cli.serving.utils")._RESPONSE_TEMPLATE_FALLBACKS
    return next(dict(template) for types, template in known.items() if WRITES_LIKE[parser] in types)


def apply_fixes(parser: str, max_length: int) -> None:
    """Patch `transformers serve` in this process, before its command looks up the patched names."""
    parts: dict[str, Any] = {
        name: import_module(f"transformers.cli.serving.{name}")
        for name in ("utils", "model_manager", "chat_completion", "response", "server")
    }
    original: Any = parts["model_manager"].ModelManager

    class Manager(original):  # type: ignore[misc]
        """Lists the served model instead of the Hub cache, and parses its calls with `parser`."""

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
        (parts["server"], "build_server", keyed(openai_errors(parts["server"].build_server))),
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


def keyed(build: Any) -> Any:
    """Wrap `build` (the app) so that every request must show the key."""

    def built(*args: Any, **kwargs: Any) -> Any:
        app = build(*args, **kwargs)
        app.add_middleware(RequireKey)
        return app

    return built


def _tolerant(build: Any) -> Any:
    def built(*args: Any, **kwargs: Any) -> Any:
        parser = build(*args, **kwargs)
        return None if parser is None else TolerantParser(parser)

    return built


def main() -> None:
    parser, max_length = sys.argv[1], int(sys.argv[2])
    sys.argv = ["transformers", *sys.argv[3:]]
    apply_fixes(parser, max_length)
    import_module("transformers.cli.transformers").main()


if __name__ == "__main__":
    main()
