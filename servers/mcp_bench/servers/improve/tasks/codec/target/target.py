"""Compression by zlib."""

import zlib


def compress(data: bytes) -> bytes:
    return zlib.compress(data, 6)


def decompress(data: bytes) -> bytes:
    return zlib.decompress(data)
