"""A meeting is moved to another time.

Level 2: it keeps its length, and takes place every week; on the same day there are a cancelled one and
one with nearly the same title.
"""

from mcp_bench.servers.saasworld.authoring import Builder, Record, family, records, times

KINDS = ("Review", "Workshop", "Kick-off", "Handover", "Status call")
CLOCKS = ("00", "15", "30", "45")


@family(levels=(1, 2))
def meeting_move(b: Builder) -> None:
    title = f"{b.pick(KINDS)} {b.product()}"
    monday = 7 * b.integer(1, 3) - b.today.weekday()
    old, new = (monday + weekday for weekday in b.sample(range(5), 2))
    minutes = b.pick((30, 45, 60, 90))
    event = _event(b, title, old, minutes)
    clock = f"{b.integer(7, 17):02d}:{b.pick(CLOCKS)}"
    start = f"{b.date(new)}T{clock}:00Z"
    end = times.later(start, minutes)
    b.background("calendar", 20 if b.level == 1 else 160)
    values = {"title": title, "day": b.date(new), "clock": clock, "old": b.date(old), "end": end[11:16]}

    if b.level == 1:
        b.request(
            "Please move the {title} to {day}, {clock} to {end} UTC.",
            "The {title} is on {day} from {clock} to {end} UTC now. Can you change it?",
            "New time for the {title}: {day}, {clock} to {end} UTC.",
            "Could we have the {title} on {day}, {clock} to {end} UTC instead?",
            **values,
        )
    else:
        for offset in (old - 7, old + 7, old + 14):
            _event(b, title, offset, minutes)
        _event(b, title, old, minutes + 15, status="cancelled")
        _event(b, f"{title} preparation", old, minutes)
        b.request(
            "Please move the {title} of {old} to {day} at {clock} UTC. It takes as long as before.",
            "I cannot make the {title} on {old}. Move it to {day}, {clock} UTC, same length.",
            "The {title} on {old} has to start on {day} at {clock} UTC instead, no longer and no shorter "
            "than planned. The ones in other weeks stay.",
            **values,
        )
    b.look("calendar_events_search", query=title)
    b.do("calendar_events_update", id=event["id"], starts_at=start, ends_at=end)


def _event(b: Builder, title: str, offset: int, minutes: int, status: str = "confirmed") -> Record:
    start = f"{b.date(offset)}T{b.integer(8, 16):02d}:{b.pick(CLOCKS)}:00Z"
    state = {"status": status, "my_response": "accepted"}
    return records.event(b, title, start, minutes, b.me, *b.sample(b.staff, 3), **state)
