"""How many tokens an episode takes, so that what does not fit a context is dropped, never cut."""

from __future__ import annotations

import json
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from mcp_bench.recorder.trajectory import Trajectory
from mcp_bench.servers.errors import MissingDependencyError, WrongUseError

MARKUP = 12
"""Tokens that a chat template puts around a message or a call. Qwen3's takes 5 to 13."""


class TokenCounter:
    """Counts with a tokenizer in the format of the `tokenizers` library.

    No chat template is applied, since that needs the model's own code: the texts, calls and tool schemas
    are counted, and `MARKUP` for each message and call. That is close, not exact.
    """

    def __init__(self, path: Path) -> None:
        """Load `path`, a `tokenizer.json` or a folder (a model's) that has one.

        Raises:
            MissingDependencyError: the package `tokenizers` is not installed.
            WrongUseError: there is no such file, or it is no tokenizer.
        """
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise MissingDependencyError(
                "counting tokens needs the package tokenizers: pip install 'mcp-bench-kit[tokenizers]'"
            ) from error
        file = path / "tokenizer.json" if path.is_dir() else path
        try:
            data = file.read_bytes()
            self._tokenizer = Tokenizer.from_str(data.decode("utf-8"))
        except OSError as error:
            raise WrongUseError(f"cannot read the tokenizer {file}: {error.strerror}") from error
        except Exception as error:  # what the library raises for a damaged file is a bare Exception
            raise WrongUseError(f"{file} is not a tokenizer of the library tokenizers: {error}") from error
        # a file may ask for both, and either would hide how long a text is
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.sha256 = sha256(data).hexdigest()
        self._of_tools = lru_cache(maxsize=256)(self._count)

    def count(self, trajectory: Trajectory) -> int:
        """Return about how many tokens the whole episode takes, tool schemas included."""
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
