"""A form gets another title, another owner or one more question."""

from typing import Any

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps

QUESTIONS = (
    "Company",
    "Day of your visit",
    "How did you hear of us?",
    "What did you miss?",
    "Would you come again?",
    "Shoe size",
)


@family(levels=(1,))
def form_details(b: Builder) -> None:
    kind, (here, there) = (
        b.pick(("Guest list", "Tasting", "Open day", "Photo contest")),
        b.sample(b.words.cities, 2),
    )
    *asked, extra = b.sample(QUESTIONS, b.integer(3, 5))
    title, owner = f"{kind} {here}", b.person(b.org).email
    records.form(b, title, asked, b.pick(b.staff))
    options: tuple[tuple[dict[str, Any], str], ...] = (
        ({"title": f"{kind} {there}"}, f'has the title "{kind} {there}" from now on'),
        ({"owner_email": owner}, f"belongs to {owner} now"),
        ({"questions": [*asked, extra]}, f'also asks "{extra}", after the questions that it has'),
    )
    new, wish = b.pick(options)
    b.background("forms", 16)
    b.request(
        'The form "{title}" {wish}. Please change it.',
        'Can you change the form "{title}"? It {wish}.',
        'Form "{title}": it {wish}, please.',
        'We have agreed that the form "{title}" {wish}. Put that in, thanks.',
        title=title,
        wish=wish,
    )
    found = steps.find(b, "forms_search", query=title)
    if "questions" in new:
        new = {"questions": [*found["questions"], extra]}
    b.do("forms_update", id=found["id"], **new)
