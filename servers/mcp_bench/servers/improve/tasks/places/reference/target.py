"""The nearest airports vote, each by how near it is. A degree of longitude shrinks towards the poles."""

import math


def solve(places: list[list[float]], states: list[str], new: list[list[float]]) -> list[str]:
    found = []
    for x, y in new:
        shrink = math.cos(math.radians(x)) ** 2
        near = sorted(
            ((a - x) ** 2 + shrink * (b - y) ** 2, state)
            for (a, b), state in zip(places, states, strict=True)
        )[:5]
        votes: dict[str, float] = {}
        for distance, state in near:
            votes[state] = votes.get(state, 0.0) + 1 / (distance + 0.01)
        found.append(max(votes, key=lambda state: votes[state]))
    return found
