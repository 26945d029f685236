"""A chat channel gets a new topic, or is archived.

Level 2: channels of other years, cities and teams have nearly the same name.
"""

from mcp_bench.servers.saasworld.authoring import Builder, Record, family
from mcp_bench.servers.saasworld.authoring.wording import says


@family(levels=(1, 2), held_out=True)
def channel_upkeep(b: Builder) -> None:
    project, city = _slug(b.project()), b.city()
    name = f"{project}-{_slug(city)}"
    channel = _channel(b, name)
    topic = b.pick(("Launch of the {} on {}", "Prices of the {} from {}", "Plan for the {}, due {}"))
    topic = topic.format(b.product(), b.day(5, 60))
    archive = b.chance(0.3)
    b.background("chat", 16 if b.level == 1 else 130)
    values = {"name": name, "topic": topic}
    if b.level == 2:
        elsewhere = b.pick([place for place in b.words.cities if place != city])
        for twin in (f"{name}-{b.today.year - 1}", f"{name}-team", f"{project}-{_slug(elsewhere)}", project):
            _channel(b, twin)

    if archive:
        b.request(
            "Please archive the chat channel {name}.",
            "We do not need the channel {name} any more. Archive it, please.",
            "Can you archive {name} in the chat?",
            "The channel {name} can go into the archive. No other one, please.",
            **values,
        )
    else:
        b.request(
            'Please set the topic of the channel {name} to "{topic}".',
            'The channel {name} needs another topic: "{topic}". Can you change it?',
            'New topic for {name} in the chat: "{topic}".',
            'Could you put "{topic}" as the topic of the channel {name}?',
            **values,
        )
    b.look("chat_channels_search", query=name)
    if archive:
        b.do("chat_channels_archive", id=channel["id"])
    else:
        b.do("chat_channels_update", id=channel["id"], topic=says(topic, topic))


def _channel(b: Builder, name: str) -> Record:
    members = [person.email for person in b.sample(b.staff, 4)]
    return b.add("chat.channels", name=name, topic=f"All about {name}", members=members)


def _slug(words: str) -> str:
    return words.lower().replace(" ", "-")
