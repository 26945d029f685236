"""Token counts of episodes: those that do not fit a context are dropped, never truncated."""

from __future__ import annotations

import json
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from mcp_bench.recorder.trajectory import Trajectory
from mcp_bench.servers.errors import MissingDependencyError, WrongUseError
from mcp_bench.servers.extras import install_extra

MARKUP = 12
"""Tokens that a chat template puts around a message or a call. Qwen3's takes 5 to 13."""


class TokenCounter:
    """Counts with a tokenizer in the format of the `tokenizers` library.

    Counts are close, not exact. Applying the chat template would need the model's own code, so texts, calls
    and tool schemas are counted, plus `MARKUP` for each message and call.
    """

    def __init__(self, path: Path) -> None:
        """Load a tokenizer.

        Args:
            path: A `tokenizer.json`, or a model's folder that contains one.

        Raises:
            MissingDependencyError: the package `tokenizers` is not installed.
            WrongUseError: the file does not exist or is not a tokenizer.
        """
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise MissingDependencyError(
                f"counting tokens needs the package tokenizers: {install_extra('tokenizers')}"
            ) from error
        file = path
        try:
            file = path / "tokenizer.json" if path.is_dir() else path
            data = file.read_bytes()
            self._tokenizer = Tokenizer.from_str(data.decode("utf-8"))
        except OSError as error:
            raise WrongUseError(f"cannot read the tokenizer {file}: {error.strerror}") from error
        except Exception as error:  # the library raises a bare Exception for a damaged file
            raise WrongUseError(f"{file} is not a tokenizer of the library tokenizers: {error}") from error
        # a file can switch both on, and either hides the length of a text
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.sha256 = sha256(data).hexdigest()
        self._of_tools = lru_cache(maxsize=256)(self._count)

    def count(self, trajectory: Trajectory) -> int:
        """Return the approximate number of tokens of the whole episode, including tool schemas."""
        texts: list[str] = []
        marked = len(trajectory.messages)
        for message in trajectory.messages:
            texts += [text for text in (message.reasoning, message.content) if text]
            marked += len(message.tool_calls)
            for call in message.tool_calls:
                texts += [call.function.name, json.dumps(call.function.arguments, ensure_ascii=False)]
        tools = tuple(json.dumps(tool.model_dump(), ensure_ascii=False) for tool in trajectory.tools)
        return self._count(tuple(texts)) + self._of_tools(tools) + MARKUP * marked

    def _count(self, texts: tuple[str, ...]) -> int:
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return sum(len(encoding) for encoding in encoded)
