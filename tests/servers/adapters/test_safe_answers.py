"""Answers that verifiers evaluate as Python: only what can do nothing else may pass."""

import pytest

from mcp_bench.servers.adapters.safe_answers import is_arithmetic, is_literal, is_near, names_no_number

pytestmark = pytest.mark.unit

CODE = (
    "__import__('os').system('id')",
    "(lambda: open('/etc/passwd').read())()",
    "[x for x in ().__class__.__base__.__subclasses__()]",
    "eval(chr(49))",
    "f'{open(0)}'",
)
LONG = "+".join(f"{7 * power}*x**{power}*y**{15 - power}/3" for power in range(1, 15)) + "-x**20/20+C"


@pytest.mark.parametrize("answer", [*CODE, "[1, print(2)]", "(" * 5000, "oracle_answer"])
def test_code_is_no_literal(answer: str) -> None:
    assert not is_literal(answer)


@pytest.mark.parametrize(
    "answer",
    [
        *CODE,
        "sin(x)",
        "x.y",
        "9**9**9",
        "9**(99*99)",
        "((9**99)**99)**99",
        "9**(50+51)",
        "9**(1/101)",
        "9**(1/0)",
        "(1000000000000**(100+100+100+100+100))**(100+100+100+100+100)",
        "(x**99)**99",
        "+".join(f"(x+{number})**100" for number in range(20)),
        "*".join(f"(x+{number})**50" for number in range(20)),
        "(a+b+c+d+e+f)**30",
        "(2**(1/2)+3**(1/2)+5**(1/3)+7**(1/5))**9",
        "10000000000000",
        "'a'*9",
        "x if y else z",
        "",
    ],
)
def test_code_and_huge_numbers_are_no_arithmetic(answer: str) -> None:
    assert not is_arithmetic(answer)


@pytest.mark.parametrize(
    "answer", ["[[0, 1], [1, 0]]", "['A', 'B']", "0 1 2\n3 4 5", "_ Q _ _", "ABBA", " 7 "]
)
def test_literals_and_words_may_be_evaluated(answer: str) -> None:
    assert is_literal(answer)


@pytest.mark.parametrize("answer", ["(3 + 4)*6/2 - 1", "x**3/3 - 4*x + C", "-6*x**2 + 5.5", "x**(1/2)", LONG])
def test_arithmetic_may_be_evaluated(answer: str) -> None:
    assert is_arithmetic(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "nan",
        "[NaN, NaN]",
        "nanj",
        "nan+nani",
        "-inf",
        "Infinity",
        "n a n",
        "['n\\u0061n']",
        "\\x6ean",
        "(nan)",
    ],
)
def test_what_is_no_number_is_found(answer: str) -> None:
    assert names_no_number(answer)


@pytest.mark.parametrize("answer", ["banana", "infer", "3 - 4i", "['-1.5', '2']", "nan0tech", "", "A nanny"])
def test_numbers_and_words_are_left_alone(answer: str) -> None:
    assert not names_no_number(answer)


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("0.171875", "0.171875"),
        ("11/64", "0.171875"),
        (" 0.1719 ", "0.171875"),
        ("6.1e-5", "6.103515625e-05"),
    ],
)
def test_probability_is_near(answer: str, wanted: str) -> None:
    assert is_near(answer, wanted)


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("0", "0.171875"), ("0.", "0.3"), ("0", "6.103515625e-05"), ("0.0001", "3.0517578125e-05"),
        ("1e8000000", "0.5"), ("1e-8_000_000", "0.5"), ("1/0", "0.5"), ("half", "0.5"), ("9" * 19_000, "0.5"),
    ],
)  # fmt: skip
def test_another_probability_is_not_near(answer: str, wanted: str) -> None:
    assert not is_near(answer, wanted)
