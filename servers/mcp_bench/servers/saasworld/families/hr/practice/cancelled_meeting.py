"""A meeting that the user has called does not take place."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import free

REASONS = ("two of us are ill", "there is nothing to decide", "trains are on strike", "we settled it by mail")


@family(levels=(1,))
def cancelled_meeting(b: Builder) -> None:
    guest, product = b.person(b.company()), b.product()
    title = b.pick(("Launch of {}", "Prices of {}", "Photos of {}", "Safety of {}")).format(product)
    start, minutes = b.moment(2, 30), b.pick((30, 45, 60))
    event = records.event(b, title, start, minutes, b.me, guest, *b.sample(b.staff, 2))
    b.background("calendar", 18)
    tool, by, it = b.pick(
        (
            ("calendar_events_search", {"query": title}, f'the meeting "{title}"'),
            ("calendar_events_list", {"attendees": guest.email}, f"my meeting with {guest.email}"),
            ("calendar_events_search", {"query": product}, f"the meeting about {product}"),
        )
    )
    why = b.pick(REASONS)
    b.request(
        "Please cancel {it}: {why}.",
        "Can you cancel {it}? The reason is that {why}.",
        "Since {why}, {it} does not take place. Please cancel it.",
        "Cancel {it} on {day}, please, and tell them that {why}.",
        it=it,
        why=why,
        day=start[:10],
    )
    steps.find(b, tool, **by)
    b.do("calendar_events_cancel", id=event["id"], message=free(f"{why[0].upper()}{why[1:]}."))
