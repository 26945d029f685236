"""Templates, each translated once into a Python function."""

import re
from functools import cache

FILTERS = {"upper": "{}.upper()", "title": "{}.title()", "length": "str(len({}))"}
SPLIT = re.compile(r"({{.*?}}|{%.*?%})")


def solve(jobs: list[list]) -> list[list[str]]:
    found = []
    for template, contexts in jobs:
        render = compiled(template)
        found.append([render(context) for context in contexts])
    return found


@cache
def compiled(template: str):
    lines = ["def render(context):", " get = context.get", " out = []", " add = out.append"]
    depth, scopes, loops = 1, [{}], 0
    for part in SPLIT.split(template):
        pad = " " * depth
        if part.startswith("{{"):
            name, *filters = (word.strip() for word in part[2:-2].split("|"))
            value = f"str({name_of(name, scopes)})"
            for name in filters:
                value = FILTERS[name].format(value)
            lines.append(f"{pad}add({value})")
        elif part.startswith("{%"):
            words = part[2:-2].split()
            if words[0] == "end":
                depth -= 1
                scopes.pop()
            elif words[0] == "for":
                loops += 1
                lines.append(f"{pad}for v{loops} in {name_of(words[3], scopes, '()')}:")
                scopes.append({**scopes[-1], words[1]: f"v{loops}"})
                depth += 1
                lines.append(" " * depth + "pass")
            else:
                lines.append(f"{pad}if {name_of(words[1], scopes)}:")
                scopes.append(scopes[-1])
                depth += 1
                lines.append(" " * depth + "pass")
        elif part:
            lines.append(f"{pad}add({part!r})")
    lines.append(" return ''.join(out)")
    space: dict = {}
    exec("\n".join(lines), space)
    return space["render"]


def name_of(name: str, scopes: list[dict], missing: str = "''") -> str:
    return scopes[-1].get(name) or f"get({name!r}, {missing})"
