"""Days and times as families count them: `2026-03-04`, `2026-03-04T09:00:00Z`, `2026-Q1`."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from mcp_bench.servers.saasworld.authoring.traps import ZONES

HOURS_AHEAD = ", ".join(f"{city} {minutes / 60:+g}" for city, minutes in ZONES.items())
"""How far each office is ahead of UTC, as policies say it."""


def later(moment: str, minutes: int) -> str:
    """Return a time so many minutes later."""
    then = datetime.fromisoformat(moment) + timedelta(minutes=minutes)
    return then.strftime("%Y-%m-%dT%H:%M:%SZ")


def day_after(day: str, days: int) -> str:
    """Return the date so many days after another one (negative: before)."""
    return (date.fromisoformat(day) + timedelta(days=days)).isoformat()


def workday(day: str) -> str:
    """Return the day, or the Monday after it if it is on a weekend."""
    weekday = date.fromisoformat(day).weekday()
    return day_after(day, 7 - weekday) if weekday > 4 else day


def clocks(hour: int, minute: int = 0) -> tuple[str, ...]:
    """Return the ways people write a time of day: `13:00`, `1 pm`, `1:00 p.m.`, ..."""
    half, noon = (hour - 1) % 12 + 1, "pm" if hour > 11 else "am"
    marks = (noon, f" {noon}", f"{noon[0]}.m.", f" {noon[0]}.m.")
    past = f":{minute:02d}"
    spoken = (past,) if minute else ("", past)
    return f"{hour:02d}{past}", f"{hour}{past}", *(f"{half}{said}{mark}" for said in spoken for mark in marks)


def quarter(today: date, step: int = 0) -> str:
    """Return the quarter that is `step` quarters away from that of a day."""
    year, rest = divmod(today.year * 4 + (today.month - 1) // 3 + step, 4)
    return f"{year}-Q{rest + 1}"
