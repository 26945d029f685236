"""Longest common subsequences by dynamic programming, cell by cell."""


def solve(pairs: list[list[str]]) -> list[int]:
    return [length(one, other) for one, other in pairs]


def length(one: str, other: str) -> int:
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            if one[i - 1] == other[j - 1]:
                table[i][j] = table[i - 1][j - 1] + 1
            else:
                table[i][j] = max(table[i - 1][j], table[i][j - 1])
    return table[len(one)][len(other)]
