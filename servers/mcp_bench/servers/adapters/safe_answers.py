"""Answers that may reach a verifier of reasoning-gym 0.1.25.

Some call `eval` on the answer, directly or through sympy's `parse_expr`. An answer is an agent's text, and a
verifier runs on the trusted side: only what can do nothing else may pass. Others take NaN for any number, and
one compares how two numbers begin.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from math import comb

from typing_extensions import TypeIs

LONGEST = 20_000
"""Characters of any answer."""
LONGEST_EXPRESSION = 2_000
LARGEST = 10**12
LARGEST_EXPONENT = 100
"""Of an exponent's value, and of its denominator."""
MOST_FACTORS = 300
"""Numbers and variables in an expression, if each power is written as a product."""
LARGEST_DEGREE = 40
"""Of an expression as a fraction of two polynomials, both together. Right answers have up to about 12."""
MOST_TERMS = 3_000
"""Of these polynomials, multiplied out: sympy's `simplify` may do that."""
WORDS = re.compile(r"[A-Z0-9_\s]*")
"""No lower-case letters: upstream's verifiers evaluate answers where their own variables are in reach."""
ARITHMETIC = (
    ast.Expression,
    ast.BinOp,
    ast.UnaryOp,
    ast.Constant,
    ast.Name,
    ast.Load,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.Div,
    ast.Pow,
    ast.UAdd,
    ast.USub,
)
OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
"""Of an exponent: powers within it are refused."""
NO_NUMBER = re.compile(r"(?<![a-z0-9])(?:nan|inf|infinity)[ij]?(?![a-z0-9])", re.IGNORECASE)
ESCAPED = re.compile(r"\\(?:u00|x)([0-9a-f]{2})", re.IGNORECASE)
LONG_EXPONENT = re.compile(r"e[+-]?[\d_]{4,}", re.IGNORECASE)
"""Python works such a number out, digit by digit."""


def names_no_number(answer: str) -> bool:
    """Return whether an answer names NaN or infinity, also in escapes or with spaces in between."""
    plain = ESCAPED.sub(lambda found: chr(int(found[1], 16)), answer)
    return any(map(NO_NUMBER.search, (plain, "".join(plain.split()))))


def is_near(answer: str, wanted: str) -> bool:
    """Return whether an answer is a probability to four decimals, and to 5 %: 0 is near no other one."""
    text = answer.replace(",", "")
    if LONG_EXPONENT.search(text):
        return False
    try:
        given, right = Fraction(text), Fraction(wanted)
    except (ValueError, ZeroDivisionError):
        return False
    return abs(given - right) <= min(Fraction(1, 10_000), right / 20)


def is_literal(answer: str) -> bool:
    """Return whether an answer is capital letters and digits only, or a Python literal: `[[0, 1]]`."""
    if WORDS.fullmatch(answer):
        return True
    try:
        ast.literal_eval(answer.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    return True


def makes_24(answer: str, stored: str) -> bool:
    """Return whether an expression has the numbers of a stored one, each once, and its value is 24."""
    if sorted(re.findall(r"\d+", answer)) != sorted(re.findall(r"\d+", stored)):
        return False
    try:
        return _value(ast.parse(answer.strip(), mode="eval").body) == 24
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return False


def same_numbers(answer: str, stored: str) -> bool:
    """Return whether a list has the numbers of a stored one, in its order."""
    try:
        given, right = (
            [float(number) for number in ast.literal_eval(text.strip())] for text in (answer, stored)
        )
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, OverflowError):
        return False
    return len(given) == len(right) and all(abs(a - b) < 1e-6 for a, b in zip(given, right, strict=True))


def is_arithmetic(answer: str) -> bool:
    """Return whether an answer is an expression of numbers, variables of one letter, and + - * / **.

    It is small enough to be worked out: see `MOST_FACTORS`, `LARGEST_DEGREE` and `MOST_TERMS`.
    """
    if len(answer) > LONGEST_EXPRESSION:
        return False
    try:
        tree = ast.parse(answer.strip(), mode="eval")
        if not all(map(_allowed, ast.walk(tree))):
            return False
        degree = sum(_degrees(tree.body))
        unknowns = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        # a root is an unknown of its own to sympy
        roots = sum(_value(node.right).denominator > 1 for node in ast.walk(tree) if _is_power(node))
        kinds = len(unknowns) + roots
        small = _factors(tree.body) <= MOST_FACTORS and degree <= LARGEST_DEGREE
        return small and comb(degree + kinds, kinds) <= MOST_TERMS
    except (SyntaxError, ValueError, ZeroDivisionError, MemoryError, RecursionError):
        return False


def _allowed(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float) and abs(value) <= LARGEST
        case ast.Name(id=name):
            return len(name) == 1
    return isinstance(node, ARITHMETIC)


def _is_power(node: ast.AST) -> TypeIs[ast.BinOp]:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)


def _degrees(node: ast.expr) -> tuple[int, int]:
    """Return bounds of the degrees above and below the line if an expression becomes one fraction."""
    match node:
        case ast.UnaryOp(operand=operand):
            return _degrees(operand)
        case ast.BinOp(left=left, op=op, right=right):
            top, bottom = _degrees(left)
            if isinstance(op, ast.Pow):
                exponent = _exponent(right)
                if exponent.denominator > 1:  # the root of a number is none
                    top = max(top, 1)
                raised = top * _times(exponent), bottom * _times(exponent)
                return raised if exponent > 0 else raised[::-1]
            other, below = _degrees(right)
            match op:
                case ast.Mult():
                    return top + other, bottom + below
                case ast.Div():
                    return top + below, bottom + other
            return max(top + below, other + bottom), bottom + below
    return int(isinstance(node, ast.Name)), 0


def _factors(node: ast.expr) -> int:
    match node:
        case ast.UnaryOp(operand=operand):
            return _factors(operand)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _factors(left) * _times(_exponent(right))
        case ast.BinOp(left=left, right=right):
            return _factors(left) + _factors(right)
    return 1


def _times(exponent: Fraction) -> int:
    return max(abs(exponent.numerator), exponent.denominator)


def _exponent(node: ast.expr) -> Fraction:
    """Return the value of an exponent.

    Raises:
        ValueError: it is too large, or not a number.
    """
    found = _value(node)
    if abs(found) > LARGEST_EXPONENT or found.denominator > LARGEST_EXPONENT:
        raise ValueError("too large")
    return found


def _value(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int(value)):
            return Fraction(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(operand=operand):
            return _value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_value(left), _value(right))
    raise ValueError("no exponent of whole numbers")
