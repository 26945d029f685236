"""A question in the chat is answered in its thread."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import Mention, says, spoken


@family(levels=(1,))
def chat_reply(b: Builder) -> None:
    product, colleague, person = b.product(), b.pick(b.staff), b.person(b.org)
    day, number = b.day(2, 40), b.integer(12, 90)
    channel = records.channel(
        b, f"{b.project()}-team".lower().replace(" ", "-"), "Plans", *b.sample(b.staff, 4)
    )
    options: tuple[tuple[str, str, Mention], ...] = (
        ("When do the flyers for the {} arrive?", f"they arrive on {day}", spoken(day)),
        ("How many samples of the {} do we have?", f"we have {number}", number),
        ("Who writes the text about the {}?", f"{person.name} writes it", person.last),
        ("What does the {} cost now?", f"it costs {number} EUR", number),
        ("Until when can we order the {}?", f"we can order it until {day}", spoken(day)),
    )
    question, answer, fact = b.pick(options)
    text, known = question.format(product), b.chance(0.5)
    b.add(
        "chat.messages", channel_id=channel["id"], sender=colleague.email, text=text, sent_at=b.moment(-5, -1)
    )
    b.background("chat", 16)
    b.request(
        "{asked} in the chat. Please answer in the thread: {answer}.",
        "Can you reply to a question in the chat? {asked}. The answer: {answer}.",
        "{asked} in one of the channels. Answer it in its thread, please: {answer}.",
        "Chat: {asked}. Tell them in the thread that {answer}.",
        asked=f"{colleague.first} has asked about the {product}" if known else f'Somebody has asked "{text}"',
        answer=answer,
    )
    found = steps.find(b, "chat_messages_search", query=product)
    b.do("chat_messages_reply", id=found["id"], text=says(f"{answer[0].upper()}{answer[1:]}.", fact))
