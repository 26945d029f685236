"""A form is made with the questions of another one, and perhaps one more."""

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
def new_form(b: Builder) -> None:
    kind, (here, there) = (
        b.pick(("Guest list", "Tasting", "Open day", "Photo contest")),
        b.sample(b.words.cities, 2),
    )
    *asked, extra = b.sample(QUESTIONS, b.integer(3, 5))
    known, new = f"{kind} {here}", f"{kind} {there}"
    records.form(b, known, asked, b.pick(b.staff))
    owner = b.pick(b.staff).email
    more: dict[str, str]
    added: list[str]
    more, added, rest = b.pick(
        (
            ({}, [], ""),
            ({"owner_email": owner}, [], f" It belongs to {owner}."),
            ({}, [extra], f' Add one more question: "{extra}".'),
        )
    )
    b.background("forms", 16)
    b.request(
        'Please make a form "{new}" with the same questions as "{known}".{rest}',
        'We need "{new}", a form with the questions of "{known}".{rest}',
        'New form, please: "{new}". Take the questions of "{known}".{rest}',
        'Can you copy the questions of the form "{known}" into a new form, "{new}"?{rest}',
        new=new,
        known=known,
        rest=rest,
    )
    found = steps.find(b, "forms_search", query=known)
    b.do("forms_create", title=new, questions=[*found["questions"], *added], **more)
