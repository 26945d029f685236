"""Columns apart, numbers as differences, times by their step; then LZMA without headers."""

import lzma

FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 0, "lp": 0, "pb": 0}]


def pack(data: bytes) -> bytes:
    return lzma.compress(data, lzma.FORMAT_RAW, filters=FILTERS)


def unpack(data: bytes) -> bytes:
    return lzma.decompress(data, lzma.FORMAT_RAW, filters=FILTERS)


def compress(data: bytes) -> bytes:
    try:
        packed = b"\1" + pack(columns(data.decode()).encode())
        if decompress(packed) == data:
            return packed
    except (ValueError, IndexError):
        pass
    return b"\0" + pack(data)


def decompress(data: bytes) -> bytes:
    text = unpack(data[1:])
    return rows(text.decode()).encode() if data[:1] == b"\1" else text


def number(word: str) -> int:
    """A number with one decimal, in tenths."""
    whole, _, tenth = word.partition(".")
    if len(tenth) != 1:
        raise ValueError(word)
    return int(whole + tenth)


def columns(text: str) -> str:
    head, *lines = text.splitlines()
    cells = [line.split(",") for line in lines]
    stations = sorted({cell[1] for cell in cells})
    last: dict[str, list[int]] = {}
    parts: list[list[str]] = [[] for _ in range(5)]
    clock = 0
    for time, station, *readings in cells:
        parts[0].append(str(int(time) - clock))
        clock = int(time)
        parts[1].append(str(stations.index(station)))
        tenths = [number(word) for word in readings]
        before = last.get(station, [0] * len(tenths))
        for place, (new, old) in enumerate(zip(tenths, before, strict=True)):
            parts[2 + place].append(chr(100 + new - old) if abs(new - old) < 60 else f"!{new - old}!")
        last[station] = tenths
    return "\n".join(
        [
            head,
            ",".join(stations),
            *(",".join(part) for part in parts[:2]),
            *("".join(part) for part in parts[2:]),
        ]
    )


def rows(text: str) -> str:
    head, names, times, places, *numbers = text.split("\n")
    stations = names.split(",")
    columns = [list(differences(part)) for part in numbers]
    last: dict[str, list[int]] = {}
    lines, clock = [head], 0
    for row, (step, place) in enumerate(zip(times.split(","), places.split(","), strict=True)):
        clock += int(step)
        station = stations[int(place)]
        tenths = [
            old + column[row] for old, column in zip(last.get(station, [0, 0, 0]), columns, strict=True)
        ]
        last[station] = tenths
        words = [f"{'-' if n < 0 else ''}{abs(n) // 10}.{abs(n) % 10}" for n in tenths]
        lines.append(",".join([str(clock), station, *words]))
    return "\n".join(lines) + "\n"


def differences(text: str):
    place = 0
    while place < len(text):
        if text[place] == "!":
            end = text.index("!", place + 1)
            yield int(text[place + 1 : end])
            place = end + 1
        else:
            yield ord(text[place]) - 100
            place += 1
