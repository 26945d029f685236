"""Answers that may reach a verifier that evaluates them as Python.

Some verifiers of reasoning-gym 0.1.25 call `eval` on the answer, directly or through sympy's `parse_expr`. An
answer is an agent's text, and a verifier runs on the trusted side: only what can do nothing else may pass.
"""

from __future__ import annotations

import ast
import re

LONGEST = 20_000
"""Characters of any answer."""
LONGEST_EXPRESSION = 2_000
LARGEST = 10**12
LARGEST_EXPONENT = 100
POWERS_DEEP = 2
"""Powers within powers: more of them take all memory."""
WORDS = re.compile(r"[A-Z0-9_\s]*")
"""No lower-case letters: upstream's verifiers evaluate answers where their own variables are in reach."""
ARITHMETIC = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.Name, ast.Load,
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.UAdd, ast.USub,
)  # fmt: skip
EXPONENT = (ast.BinOp, ast.UnaryOp, ast.Constant, ast.Add, ast.Sub, ast.Div, ast.UAdd, ast.USub)


def is_literal(answer: str) -> bool:
    """Return whether an answer is capital letters and digits only, or a Python literal: `[[0, 1]]`."""
    if WORDS.fullmatch(answer):
        return True
    try:
        ast.literal_eval(answer.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    return True


def is_arithmetic(answer: str) -> bool:
    """Return whether an answer is an expression of numbers, variables of one letter, and + - * / **."""
    if len(answer) > LONGEST_EXPRESSION:
        return False
    try:
        tree = ast.parse(answer.strip(), mode="eval")
        return all(map(_allowed, ast.walk(tree))) and _powers(tree) <= POWERS_DEEP
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False


def _allowed(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float) and abs(value) <= LARGEST
        case ast.Name(id=name):
            return len(name) == 1
        case ast.BinOp(op=ast.Pow(), right=exponent):
            return all(map(_in_exponent, ast.walk(exponent)))
    return isinstance(node, ARITHMETIC)


def _in_exponent(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) is int and node.value <= LARGEST_EXPONENT
    return isinstance(node, EXPONENT) and not isinstance(getattr(node, "op", None), ast.Pow)


def _powers(node: ast.AST) -> int:
    """Return how deep powers are in each other."""
    below = max(map(_powers, ast.iter_child_nodes(node)), default=0)
    return below + (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow))
