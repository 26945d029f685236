"""News is posted in a channel of the chat."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import Mention, spoken


@family(levels=(1,))
def channel_post(b: Builder) -> None:
    name = f"{b.project()}-{b.pick(('team', 'launch', 'fair', 'press'))}".lower().replace(" ", "-")
    records.channel(b, name, "Plans and dates", *b.sample(b.staff, 4))
    day, number, person, product = b.day(2, 40), b.integer(12, 90), b.person(b.org), b.product()
    options: tuple[tuple[str, list[Mention]], ...] = (
        (f"the photos have to be ready on {day}", [spoken(day)]),
        (f"we have stand {number} at the fair", [number]),
        (f"{person.name} answers questions of the press", [person.last]),
        (f"the flyers for the {product} arrive on {day}", [product, spoken(day)]),
        (f"the {product} costs {number} EUR from now on", [product, number]),
    )
    news, facts = b.pick(options)
    sentence = f"{news[0].upper()}{news[1:]}"
    b.background("chat", 16)
    b.request(
        "Please post in the channel {name} that {news}.",
        "Can you tell the people in {name} that {news}? The chat channel, I mean.",
        "Chat, channel {name}: {news}. Please write that there.",
        "{News}. Put that into the channel {name}, please.",
        "Write a message in {name}, our channel in the chat: {news}.",
        name=name,
        news=news,
        News=sentence,
    )
    found = steps.find(b, "chat_channels_search", query=name)
    steps.announce(b, found, f"{sentence}.", *facts)
