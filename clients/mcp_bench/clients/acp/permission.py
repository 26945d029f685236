"""Answers to an agent that asks for leave to use a tool (`session/request_permission`)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

ALLOW = ("allow_once", "allow_always")
REJECT = ("reject_once", "reject_always")


def asked_for(call: Mapping[str, Any], names: Collection[str]) -> str | None:
    """Return which of the tools a call is of, None where it is of none.

    Agents tell a tool's name where it suits them: in the title, in the input, in extensions. So it is
    looked for in all of them, but a command that merely mentions a name is none of these tools.
    """
    if call.get("kind") in ("edit", "delete", "move", "read", "fetch"):
        return None
    title = str(call.get("title") or "")
    told = title if call.get("kind") == "execute" else f"{title} {json.dumps(call.get('_meta') or {})}"
    fitting = [name for name in names if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", told)]
    return max(fitting, key=len, default=None)


def decide(options: Collection[Mapping[str, Any]], *, allow: bool) -> dict[str, Any]:
    """Return the outcome to answer with: for this once, where that can be chosen."""
    for kind in ALLOW if allow else REJECT:
        for option in options:
            if option.get("kind") == kind:
                return {"outcome": "selected", "optionId": option["optionId"]}
    return {"outcome": "cancelled"}
