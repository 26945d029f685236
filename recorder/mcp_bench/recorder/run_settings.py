"""What reports need of a run's settings, which are stored as a JSON object."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

HARNESS = ("timeout", "max_calls", "retries", "user", "judge", "opponent", "harness", "options")
"""The settings that scores depend on. The endpoint's URL is not one: a local server has any port."""

_PART = re.compile(
    r"(timeout|max_calls|retries|user|judge|opponent|harness) ([^\s,]+)(?:, )?|options (.*)", re.DOTALL
)


@lru_cache(maxsize=256)
def harness(settings: str) -> str:
    """Return the settings that scores depend on, such as `timeout 900, retries 2, options effort=high`."""
    found = _settings(settings)
    found |= {role: one["model"] for role, one in (found.get("role_models") or {}).items()}
    if isinstance(folder := found.get("harness"), dict):
        found["harness"] = f"{folder['name']}@{folder['version']}"
    return ", ".join(
        f"{name} {_words(found[name])}" for name in HARNESS if found.get(name) not in (None, {}, [])
    )


@lru_cache(maxsize=256)
def harness_parts(text: str) -> Mapping[str, str]:
    """Return the parts of what `harness` returned, by name, such as `{"drop": "drop=0.5"}`."""
    found: dict[str, str] = {}
    for part in _PART.finditer(text):
        if part[1]:
            found[part[1]] = f"{part[1]} {part[2]}"
        else:
            found |= {option.partition("=")[0]: option for option in shlex.split(part[3])}
    return found


@lru_cache(maxsize=256)
def private_splits(settings: str) -> frozenset[str] | None:
    """Return the splits whose tasks nobody can know beforehand, or None if the run does not say."""
    found = _settings(settings).get("private_splits")
    return frozenset(map(str, found)) if isinstance(found, list) else None


def _settings(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return shlex.join(f"{name}={value[name]}" for name in sorted(value))
    return f"{value:g}" if isinstance(value, float) else str(value)
