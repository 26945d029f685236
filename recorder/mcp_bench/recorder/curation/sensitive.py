"""Where secrets and e-mail addresses are in a text.

No search begins again inside what an earlier one has read, or it reads a bounded part: texts of agents can
have megabytes without a space.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

# a tool's result is often JSON inside a text, where an escaped line break also ends a word
START = r"(?:(?<=\\[nrt])|(?<![A-Za-z0-9_\\]))"

_TOKENS = (
    r"sk-[A-Za-z0-9_-]{20,}",  # OpenAI, Anthropic and others
    r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}",  # Stripe
    r"gh[opsur]_[A-Za-z0-9]{36,}",  # GitHub
    r"github_pat_[A-Za-z0-9_]{22,}",
    r"glpat-[A-Za-z0-9_-]{20,}",  # GitLab
    r"(?:AKIA|ASIA)[A-Z0-9]{16}",  # AWS
    r"AIza[A-Za-z0-9_-]{35}",  # Google
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",  # Slack
    r"hf_[A-Za-z0-9]{30,}",  # Hugging Face
    r"npm_[A-Za-z0-9]{36}",
    r"pypi-[A-Za-z0-9_-]{50,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",  # SendGrid
    r"eyJ[A-Za-z0-9_-]{8,4000}+\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",  # JSON Web Token, RFC 7519
)
# the end of a name: `password`, `db_password`, `dbPassword`; but `page_token` is no secret
_NAME = (
    r"(?:(?<=\\[nrt])|(?<![A-Za-z0-9\\])|(?<=[a-z0-9])(?=[A-Z]))"
    r"(?i:password|passwd|passphrase|secret|secret[_-]?key|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|(?:access|auth|refresh)[_-]?token|(?<![A-Za-z0-9_-])token)"
)
_SECRETS = re.compile(
    "|".join(
        (
            r"(?P<block>-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:[^-]++|-(?!----))*+"
            r"-----END [A-Z ]{0,40}PRIVATE KEY-----)",
            # without its end, as from `head`: the lines of base64
            r"(?P<lines>-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:(?:\s|\\+[nrt])*+[A-Za-z0-9+/=]{16,}+)++)",
            rf"{START}(?P<token>{'|'.join(_TOKENS)})",
            r"(?i:\b(?:bearer|basic)\s+)(?P<header>[A-Za-z0-9._~+/-]{16,}=*)",
            r"(?<=://)[^\s/:@\"'\\]+:(?P<url>[^\s/@\"'\\]+)(?=@)",
            # after a name: a quoted value; after a quoted name, a number; after one without quotes, a value
            # that does not look like a plain word
            rf"{_NAME}(?P<named>\\*+[\"'])?\s*+[:=]\s*+(?:(?P<opening>\\*+[\"'])|(?(named)"
            r"(?P<number>-?[0-9][0-9.eE+-]*+)(?![A-Za-z_])|"
            r"(?P<plain>(?=[^\s\"'\\,;&]{0,200}[0-9])[^\s\"'\\,;&]{6,})))",
        )
    )
)
_LEAST = 6
"""Length of a value whose name is not quoted, from which it can be a secret."""
_QUOTES = {quote: re.compile(rf"(?<!\\)\\*+{quote}") for quote in ("'", '"')}
_FIELD = re.compile(rf"{_NAME}\Z")

# the characters before an @ are read once, from the first of them; escapes of JSON are no part of an address
_EMAILS = re.compile(
    r"(?<![A-Za-z0-9._%+-])(?:(?<=\\)(?:u[0-9A-Fa-f]{4}|[bfnrt]))?+[._%+-]*+"
    r"(?P<email>[A-Za-z0-9][A-Za-z0-9._%+-]*+@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,})(?![A-Za-z0-9])"
)


class Span(NamedTuple):
    """A place in a text. `kind` is `SECRET` or `EMAIL`."""

    start: int
    end: int
    kind: str = ""
    quote: str = ""
    """What the placeholder is put between: a number in JSON becomes a string."""


def is_secret(name: str) -> bool:
    """Return whether the name of a field suggests that its value is a secret."""
    return _FIELD.search(name) is not None


def secrets(text: str) -> Iterator[Span]:
    """Yield the places of secrets, in order."""
    position = 0
    while match := _SECRETS.search(text, position):
        group = match.lastgroup or ""
        start, end = match.span(group)
        position = end
        if group == "opening":
            start, end = end, _end_of_value(text, match)
            if match["named"] is None and not _can_be_secret(text[start:end]):
                continue
            position = end
        if start < end:
            yield Span(start, end, "SECRET", match["named"] if group == "number" else "")


def emails(text: str) -> Iterator[Span]:
    """Yield the places of e-mail addresses, in order."""
    for match in _EMAILS.finditer(text):
        yield Span(*match.span("email"), "EMAIL")


def _can_be_secret(value: str) -> bool:
    return len(value) >= _LEAST and any(one.isdigit() for one in value)


def _end_of_value(text: str, match: re.Match[str]) -> int:
    """Return where a quoted value ends, which begins after the match.

    That is at the same quote with as many backslashes as the first one has: JSON in a string of JSON has one
    before each quote. More of them are escapes within the value, and fewer end the text that contains it.
    Without an end, for example because the text was cut, the value is the rest of the line; and so it is if
    the name is not quoted, since only JSON has certain quotes.
    """
    start, escapes = match.end(), len(match["opening"]) - 1
    for quote in _QUOTES[match["opening"][-1]].finditer(text, start):
        found = len(quote[0]) - 1
        if found < escapes or found % (2 * escapes + 2) == escapes:
            end = quote.start() if found < escapes else quote.end() - escapes - 1
            return end if match["named"] else _line(text, start, end)
    return _line(text, start, len(text))


def _line(text: str, start: int, end: int) -> int:
    """Return where the line ends that begins at `start`, or `end` if that comes first."""
    found = text.find("\n", start, end)
    return end if found < 0 else found
