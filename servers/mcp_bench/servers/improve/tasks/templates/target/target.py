"""Templates, read again for each context."""

import re

FILTERS = {"upper": str.upper, "title": str.title, "length": lambda text: str(len(text))}


def solve(jobs: list[list]) -> list[list[str]]:
    return [[render(template, context) for context in contexts] for template, contexts in jobs]


def render(template: str, context: dict) -> str:
    parts = re.split(r"({{.*?}}|{%.*?%})", template)
    text, _ = block(parts, 0, context)
    return text


def block(parts: list[str], place: int, context: dict) -> tuple[str, int]:
    text = ""
    while place < len(parts):
        part = parts[place]
        place += 1
        if part.startswith("{{"):
            name, *filters = (word.strip() for word in part[2:-2].split("|"))
            value = str(context.get(name, ""))
            for name in filters:
                value = FILTERS[name](value)
            text += value
        elif part.startswith("{%"):
            words = part[2:-2].split()
            if words[0] == "end":
                return text, place
            if words[0] == "for":
                end = place
                for item in context.get(words[3], []):
                    inner, end = block(parts, place, {**context, words[1]: item})
                    text += inner
                _, place = block(parts, place, context) if end == place else ("", end)
            else:
                inner, place = block(parts, place, context)
                if context.get(words[1]):
                    text += inner
        else:
            text += part
    return text, place
