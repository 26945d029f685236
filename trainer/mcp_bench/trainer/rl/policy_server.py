"""Serve the model that is being trained, with the model APIs that agents speak.

The server is the back of the gateway. Its front is the recording proxy of each episode
(`bridge/.../model_proxy/`): an agent knows that proxy's secret path only, and the proxy alone knows the path
of its episode here.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from anyio.from_thread import start_blocking_portal

from mcp_bench.bridge.http.access import AccessRules
from mcp_bench.bridge.http.listen import bind, listen
from mcp_bench.bridge.model_proxy.upstream import EPISODE
from mcp_bench.trainer.engine.app import Policy, make_app
from mcp_bench.trainer.engine.decoder import Decoder
from mcp_bench.trainer.engine.load import Loaded, load
from mcp_bench.trainer.recipe import Recipe
from mcp_bench.trainer.serving.checkpoint import read_checkpoint
from mcp_bench.trainer.serving.families import choose_parsers, with_tools

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Endpoint:
    """Where the policy answers."""

    root: str = field(repr=False)
    """URL before `/v1`. It has a secret, which every request must show, and a place for the episode."""
    policy: Policy
    engine: Decoder


@contextmanager
def serve_policy(loaded: Loaded, model: str, policy: Policy) -> Iterator[Endpoint]:
    """Serve a policy on a free port of loopback, in threads of this process.

    Args:
        loaded: the policy with its engine.
        model: its name.
        policy: how it is sampled, and the version of its weights.
    """
    secret = secrets.token_urlsafe(32)
    app = make_app(loaded, model, policy=policy)
    with bind(LOOPBACK, 0) as listener, loaded.engine, start_blocking_portal() as portal:
        port = listener.getsockname()[1]
        guarded = AccessRules(app, LOOPBACK, port, token=secret)
        serving, _ = portal.start_task(partial(listen, guarded, listener, drain=1))
        try:
            yield Endpoint(f"http://{LOOPBACK}:{port}/{secret}/{EPISODE}", policy, loaded.engine)
        finally:
            serving.cancel()


def load_policy(template: Path, folder: str, recipe: Recipe, *, device: str | None = None) -> Loaded:
    """Load a model as the recipe has it, with its engine.

    Args:
        template: file for the chat template, if the model's own has no tools.
        folder: the model.
        recipe: device and precision.
        device: where to load it, in place of the recipe's.
    """
    checkpoint = with_tools(read_checkpoint(Path(folder)))
    if not checkpoint.own_template:
        template.write_text(checkpoint.chat_template, encoding="utf-8")
    parsers = choose_parsers(checkpoint, None, None)
    return load(
        folder,
        calls=parsers.tool_calls,
        reasoning=parsers.reasoning,
        device=device or recipe.hardware.device,
        dtype="bfloat16" if in_16_bits(recipe) else "float32",
        template=None if checkpoint.own_template else template,
    )


def in_16_bits(recipe: Recipe) -> bool:
    """Return whether the engine has 16-bit weights.

    With `bf16-mixed`, a single process answers with the 32-bit weights that it trains; the engine of several
    has weights of its own.
    """
    return recipe.training.precision == "bf16-mixed" and recipe.hardware.devices > 1
