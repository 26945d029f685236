"""Colours, by what they stand for.

Blue and orange-red, green and purple: pairs that people with any of the usual kinds of colour blindness tell
apart (after Okabe and Ito 2008, https://jfly.uni-koeln.de/color/). Each has a darker form for a light page,
and a lighter one for a dark page.
"""

from __future__ import annotations

LIGHT = {
    "ink": "#1b1f24",
    "muted": "#59636e",
    "rule": "#d8dde3",
    "paper": "#fefefe",
    "partial": "#0072b2",
    "strict": "#d55e00",
    "fixed": "#00805f",
    "broken": "#aa3f88",
    "loss": "#6a4fb3",
}
"""In these the charts are drawn, so no two may be the same."""

DARK = {
    "ink": "#e6e8eb",
    "muted": "#9aa4af",
    "rule": "#343a41",
    "paper": "#14171a",
    "partial": "#56b4e9",
    "strict": "#f08a3c",
    "fixed": "#3fc79f",
    "broken": "#df8fc4",
    "loss": "#b3a3ee",
}
