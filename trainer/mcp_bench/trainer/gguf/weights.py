"""The weights of a model's folder, one tensor at a time, by their names in GGUF."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.base_weights import safetensors_files
from mcp_bench.trainer.gguf.architectures import (
    GgufArchitecture,
    gguf_name,
    heads_of,
    interleave,
    needed,
)
from mcp_bench.trainer.gguf.hyperparameters import key_heads, rope_factors

BUFFERS = "rotary_emb.inv_freq"
"""Ends the names of what old checkpoints hold besides weights."""
ROPE_FACTORS = "rope_freqs.weight"


class Weights:
    """Reads the safetensors files of a folder. `shapes` has each tensor's name in GGUF and its shape."""

    def __init__(self, folder: Path, architecture: GgufArchitecture, config: Any, files: ExitStack) -> None:
        """Open the files, which `files` closes.

        Raises:
            WrongUseError: weights are missing, or the architecture has no place for them.
        """
        from safetensors import SafetensorError, safe_open

        self._architecture, self._config = architecture, config
        self._sources: dict[str, tuple[Any, str]] = {}
        self._factors = rope_factors(config)
        self.shapes: dict[str, tuple[int, ...]] = {}
        for path in safetensors_files(folder):
            try:
                opened: Any = files.enter_context(safe_open(path, framework="pt"))
            except SafetensorError as error:
                raise WrongUseError(f"cannot read {path}: {error}") from error
            for name in opened.keys():  # noqa: SIM118 - not a dict
                self._add(path, name, opened)
        if self._factors is not None:
            self.shapes[ROPE_FACTORS] = self._factors.shape
        wanted = needed(architecture, config.num_hidden_layers, tied=config.tie_word_embeddings)
        if missing := sorted(wanted - self.shapes.keys()):
            raise WrongUseError(f"{folder} lacks weights: {', '.join(missing[:3])} (names in GGUF)")

    def _add(self, path: Path, name: str, opened: Any) -> None:
        if name.endswith(BUFFERS) or (name.startswith("lm_head.") and self._config.tie_word_embeddings):
            return
        ours = gguf_name(self._architecture, name)
        if ours is None:
            raise WrongUseError(
                f"{path} has weights {name!r}, for which llama.cpp's {self._architecture.name} has no place"
            )
        self._sources[ours] = (opened, name)
        self.shapes[ours] = tuple(opened.get_slice(name).get_shape())

    def read(self, name: str) -> Any:
        """Return a tensor as GGUF has it: an array of float32."""
        import numpy as np

        if name == ROPE_FACTORS:
            return self._factors
        opened, theirs = self._sources[name]
        array = opened.get_tensor(theirs).float().numpy()
        heads = heads_of(name, self._config.num_attention_heads, key_heads(self._config))
        if heads is None or not self._architecture.permuted:
            return array
        return np.ascontiguousarray(interleave(array, heads))
