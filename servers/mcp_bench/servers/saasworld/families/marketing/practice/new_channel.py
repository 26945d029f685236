"""A channel of the chat is opened, with the members of another one."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import says

TOPICS = (
    ("photos for the catalogue", "photo*"),
    ("the stand at the fair", "fair"),
    ("ideas for the newsletter", "newsletter"),
    ("the new logo", "logo"),
)


@family(levels=(1,))
def new_channel(b: Builder) -> None:
    known, new = (f"{b.project()}-{b.city()}".lower().replace(" ", "-") for _ in range(2))
    (topic, word), members = b.pick(TOPICS), b.sample(b.staff, b.integer(2, 4))
    records.channel(b, known, "Plans and dates", *members)
    guest = b.person(b.org).email if b.chance(0.5) else ""
    b.background("chat", 18)
    b.request(
        "Please open a channel {new} about {topic}, with the members of {known}{plus}.",
        "We need a new channel in the chat: {new}. Topic: {topic}. Members: those of {known}{plus}.",
        "Can you make a channel {new}, topic {topic}? Everybody in {known} should be in it{plus}.",
        "The people in {known} want another channel. Call it {new}; about {topic}. Same members{plus}.",
        new=new,
        known=known,
        topic=topic,
        plus=f" plus {guest}" if guest else "",
    )
    found = steps.find(b, "chat_channels_search", query=known)
    people = steps.invited(b, [*found["members"], *([guest] if guest else [])])
    b.do("chat_channels_create", name=new, topic=says(topic[0].upper() + topic[1:], word), members=people)
