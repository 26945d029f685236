"""The state whose airports are nearest on average."""


def solve(places: list[list[float]], states: list[str], new: list[list[float]]) -> list[str]:
    groups: dict[str, list[list[float]]] = {}
    for place, state in zip(places, states, strict=True):
        groups.setdefault(state, []).append(place)
    middles = {
        state: (sum(p[0] for p in group) / len(group), sum(p[1] for p in group) / len(group))
        for state, group in groups.items()
    }
    return [
        min(middles, key=lambda state: (middles[state][0] - x) ** 2 + (middles[state][1] - y) ** 2)
        for x, y in new
    ]
