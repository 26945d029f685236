"""Colours by role.

Blue with orange-red and green with purple are distinguishable with all common kinds of colour blindness
(after Okabe and Ito 2008, https://jfly.uni-koeln.de/color/). Each colour has a darker form for light pages
and a lighter form for dark pages.
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
"""Charts are drawn in these colours and mapped to roles afterwards, so each must be unique."""

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
