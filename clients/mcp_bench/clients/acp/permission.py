"""Answer an agent's requests for permission to use a tool (`session/request_permission`)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

ALLOW = ("allow_once", "allow_always")
REJECT = ("reject_once", "reject_always")


def asked_for(call: Mapping[str, Any], names: Collection[str]) -> str | None:
    """Return the tool that a call is for, or None if it is not among `names`.

    Agents put a tool's name in the title, in the input, or in extensions, so all of them are searched. A
    shell command that merely mentions a name is not a call of that tool.
    """
    if call.get("kind") in ("edit", "delete", "move", "read", "fetch"):
        return None
    title = str(call.get("title") or "")
    text = title if call.get("kind") == "execute" else f"{title} {json.dumps(call.get('_meta') or {})}"
    fitting = [name for name in names if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text)]
    return max(fitting, key=len, default=None)


def decide(options: Collection[Mapping[str, Any]], *, allow: bool) -> dict[str, Any]:
    """Return the outcome to answer with: once only, if the agent offers that."""
    for kind in ALLOW if allow else REJECT:
        for option in options:
            if option.get("kind") == kind:
                return {"outcome": "selected", "optionId": option["optionId"]}
    return {"outcome": "cancelled"}
