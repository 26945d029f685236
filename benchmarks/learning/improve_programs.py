"""Programs that the scripted proposer of `improve_drivers.py` begins with, in place of a baseline.

Each is about as slow or as large as the baseline, and has settings or other ways that can be chosen.
`ALIGNMENT` has the other ways alone, and comes after the baseline.
"""

CODEC = """import bz2, lzma, zlib
S = {"coder": "zlib", "columns": 0, "times": 0, "tenths": 0, "plain": 0}
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 0, "lp": 0, "pb": 0}]

def pack(data):
    if S["coder"] == "lzma":
        return lzma.compress(data, lzma.FORMAT_RAW, filters=FILTERS) if S["plain"] else lzma.compress(data)
    return (bz2 if S["coder"] == "bz2" else zlib).compress(data, 9)

def unpack(data):
    if S["coder"] == "lzma":
        raw = lzma.FORMAT_RAW
        return lzma.decompress(data, raw, filters=FILTERS) if S["plain"] else lzma.decompress(data)
    return (bz2 if S["coder"] == "bz2" else zlib).decompress(data)

def steps(numbers, sign):
    kept, out = 0, []
    for number in numbers:
        out.append(number - kept if sign < 0 else number + kept)
        kept = number if sign < 0 else out[-1]
    return out

def compress(data):
    head, *lines = data.decode().splitlines()
    columns = [list(column) for column in zip(*(line.split(",") for line in lines))]
    if S["times"]:
        columns[0] = [str(n) for n in steps([int(n) for n in columns[0]], -1)]
    if S["tenths"]:
        for place in (2, 3, 4):
            columns[place] = [word.replace(".", "") for word in columns[place]]
    if S["columns"]:
        return pack("\\n".join([head, *(",".join(column) for column in columns)]).encode())
    return pack("\\n".join([head, *(",".join(row) for row in zip(*columns))]).encode())

def decompress(data):
    head, *lines = unpack(data).decode().split("\\n")
    columns = [line.split(",") for line in lines]
    if not S["columns"]:
        columns = [list(column) for column in zip(*columns)]
    if S["times"]:
        columns[0] = [str(n) for n in steps([int(n) for n in columns[0]], 1)]
    if S["tenths"]:
        for place in (2, 3, 4):
            columns[place] = [f"{word[:-1]}.{word[-1]}" for word in columns[place]]
    return ("\\n".join([head, *(",".join(row) for row in zip(*columns))]) + "\\n").encode()
"""
ALIGNMENT = """

from bisect import bisect_left
from functools import cache


def rows(one, other):
    above = [0] * (len(other) + 1)
    for letter in one:
        row, left = [0], 0
        for place, found in enumerate(other):
            left = above[place] + 1 if letter == found else max(left, above[place + 1])
            row.append(left)
        above = row
    return above[-1]


def ends(one, other):
    last = []
    for letter in one:
        for place in range(len(other) - 1, -1, -1):
            if other[place] == letter:
                at = bisect_left(last, place)
                last[at : at + 1] = [place]
    return len(last)


def bits(one, other):
    row = whole = (1 << len(one)) - 1
    for letter in other:
        hits = row & places(one, letter)
        row = ((row + hits) | (row - hits)) & whole
    return len(one) - row.bit_count()


def places(text, letter):
    return sum(1 << place for place, found in enumerate(text) if found == letter)
"""
TEMPLATES = """import re
from functools import cache

FILTERS = {"upper": str.upper, "title": str.title, "length": lambda text: str(len(text))}


def solve(jobs):
    return [[render(template, context) for context in contexts] for template, contexts in jobs]


def render(template, context):
    return block(split(template), 0, context)[0]


def split(template):
    return re.split(r"({{.*?}}|{%.*?%})", template)


def names(part):
    return [word.strip() for word in part[2:-2].split("|")]


def words(part):
    return part[2:-2].split()


def block(parts, place, context):
    text = ""
    while place < len(parts):
        part = parts[place]
        place += 1
        if part.startswith("{{"):
            name, *filters = names(part)
            text += filtered(str(context.get(name, "")), filters)
        elif part.startswith("{%"):
            tag = words(part)
            if tag[0] == "end":
                return text, place
            if tag[0] == "for":
                end = place
                for item in context.get(tag[3], []):
                    inner, end = block(parts, place, {**context, tag[1]: item})
                    text += inner
                place = end if end > place else after(parts, place)
            else:
                inner, place = block(parts, place, context)
                text += inner if context.get(tag[1]) else ""
        else:
            text += part
    return text, place


def after(parts, place):
    _, place = block(parts, place, {})
    return place


def filtered(value, filters):
    for name in filters:
        value = FILTERS[name](value)
    return value


def tree(template):
    return nodes(iter(split(template)))


def nodes(parts):
    found = []
    for part in parts:
        if part.startswith("{{"):
            found.append(("value", names(part), ()))
        elif part.startswith("{%"):
            tag = words(part)
            if tag[0] == "end":
                break
            found.append((tag[0], tag, nodes(parts)))
        else:
            found.append(("text", part, ()))
    return found


def filled(found, context):
    text = ""
    for kind, what, inner in found:
        if kind == "text":
            text += what
        elif kind == "value":
            text += filtered(str(context.get(what[0], "")), what[1:])
        elif kind == "for":
            for item in context.get(what[3], []):
                text += filled(inner, {**context, what[1]: item})
        elif context.get(what[1]):
            text += filled(inner, context)
    return text
"""
