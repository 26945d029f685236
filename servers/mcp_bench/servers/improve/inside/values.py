"""Values as bytes, between the benchmark and a candidate: JSON, bytes, and arrays where both have numpy.

It is mounted into the sandbox, too. Nothing that arrives is executed: no pickle, and arrays without objects.
"""

import io
import json
import math
import struct
from typing import Any

LENGTH = struct.Struct("<Q")
MOST_EMPTY = 1 << 20
"""Lists that an array without numbers can become."""


def pack(value: Any) -> bytes:
    """Return a value as bytes: a JSON document whose long parts follow it.

    Raises:
        TypeError: it has something that is not JSON, bytes or an array.
    """
    parts: list[bytes] = []

    def other(found: Any) -> Any:
        if isinstance(found, (bytes, bytearray, memoryview)):
            parts.append(bytes(found))
            return {"$bytes": len(parts) - 1}
        if type(found).__module__ == "numpy":
            import numpy

            if isinstance(found, numpy.generic):
                return found.item()
            data = io.BytesIO()
            numpy.save(data, found, allow_pickle=False)
            parts.append(data.getvalue())
            return {"$array": len(parts) - 1}
        raise TypeError(f"an answer cannot have a {type(found).__name__}")

    text = json.dumps(value, default=other).encode()
    sizes = [len(text), *map(len, parts)]
    return b"".join([LENGTH.pack(len(sizes)), *map(LENGTH.pack, sizes), text, *parts])


def count_of(data: bytes) -> int:
    """Return how many parts a value has, with its JSON document.

    Raises:
        ValueError: it has none, or more than bytes.
    """
    count = LENGTH.unpack_from(data)[0] if len(data) >= LENGTH.size else 0
    if not 0 < count < len(data) // LENGTH.size:
        raise ValueError("not a value: it has no parts, or more than bytes")
    return int(count)


def document_size(data: bytes) -> int:
    """Return the bytes of a value without its long parts: what takes more memory when it is read.

    Raises:
        ValueError: it is not the bytes of a value.
    """
    return int(LENGTH.size * count_of(data) + LENGTH.unpack_from(data, LENGTH.size)[0])


def unpack(data: bytes) -> Any:
    """Return the value.

    Raises:
        ValueError: it is not the bytes of a value.
    """
    try:
        count = count_of(data)
        sizes = [LENGTH.unpack_from(data, LENGTH.size * (1 + number))[0] for number in range(count)]
        parts, start = [], LENGTH.size * (1 + count)
        for size in sizes:
            parts.append(data[start : start + size])
            start += size

        def part(found: "dict[str, Any]") -> Any:
            if set(found) not in ({"$bytes"}, {"$array"}):
                return found
            [(kind, number)] = found.items()
            place = 1 + int(number)
            # once: a candidate could name a large part thousands of times
            once, parts[place] = parts[place], b""
            return array(once) if kind == "$array" else once

        return json.loads(parts[0], object_hook=part)
    except ValueError:
        raise
    except Exception as error:  # whatever the other side made of it
        raise ValueError(f"not a value: {type(error).__name__}: {error}") from error


def array(data: bytes) -> Any:
    """Return an array in numpy's own format.

    Raises:
        ValueError: it has objects, not as many bytes as its shape says, or is empty beside a huge dimension.
    """
    from numpy.lib import format as npy

    file = io.BytesIO(data)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[npy.read_magic(file)]
    shape, _, dtype = read(file)
    if dtype.hasobject or not dtype.itemsize or math.prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise ValueError("the array has objects, or another size than its shape")
    if not math.prod(shape) and math.prod(max(size, 1) for size in shape) > MOST_EMPTY:
        raise ValueError(f"the array is empty, and its shape {shape} is huge")
    return npy.read_array(io.BytesIO(data), allow_pickle=False)
