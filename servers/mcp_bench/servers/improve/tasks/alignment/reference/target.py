"""Longest common subsequences, a whole row in one integer (Crochemore et al., 2001)."""


def solve(pairs: list[list[str]]) -> list[int]:
    return [length(one, other) for one, other in pairs]


def length(one: str, other: str) -> int:
    places = dict[str, int]()
    for place, letter in enumerate(one):
        places[letter] = places.get(letter, 0) | 1 << place
    mask = (1 << len(one)) - 1
    row = mask
    for letter in other:
        hits = row & places.get(letter, 0)
        row = ((row + hits) | (row - hits)) & mask
    return len(one) - row.bit_count()
