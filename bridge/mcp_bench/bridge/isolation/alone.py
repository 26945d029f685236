"""What a process that runs alone is refused besides: it leaves nothing to a later one. Standard library only.

Landlock closes the content and the names of files. It has no right for what else a file carries, such as
attributes, times and owners, and none for what a closed connection leaves in the network's tables. The calls
that set those are refused by a filter of its own (seccomp(2)); of several, the strictest answer counts.
"""

from mcp_bench.bridge.isolation.confine import (
    ARCHITECTURES,
    BPF_IF_EQUAL,
    BPF_LOAD,
    BPF_RETURN,
    SECCOMP_ALLOW,
    SECCOMP_EPERM,
    column,
    filter_calls,
    landlock_version,
    restrict,
)

REFUSED: "dict[str, tuple[int | None, ...]]" = {
    "setxattr": (188, 226, 5, 226, 5),
    "lsetxattr": (189, 227, 6, 227, 6),
    "fsetxattr": (190, 228, 7, 228, 7),
    "setxattrat": (463, 463, 463, 463, 463),
    "removexattr": (197, 235, 14, 235, 14),
    "lremovexattr": (198, 236, 15, 236, 15),
    "fremovexattr": (199, 237, 16, 237, 16),
    "removexattrat": (466, 466, 466, 466, 466),
    "file_setattr": (469, 469, 469, 469, 469),
    "utime": (132, 30, None, None, None),
    "utimes": (235, 271, None, 269, None),
    "futimesat": (261, 299, None, 326, None),
    "utimensat": (280, 320, 88, 348, 88),
    "utimensat_time64": (None, 412, None, 412, None),
    "chmod": (90, 15, None, 15, None),
    "fchmod": (91, 94, 52, 94, 52),
    "fchmodat": (268, 306, 53, 333, 53),
    "fchmodat2": (452, 452, 452, 452, 452),
    "chown": (92, 182, None, 182, None),
    "fchown": (93, 95, 55, 95, 55),
    "lchown": (94, 16, None, 16, None),
    "chown32": (None, 212, None, 212, None),
    "fchown32": (None, 207, None, 207, None),
    "lchown32": (None, 198, None, 198, None),
    "fchownat": (260, 298, 54, 325, 54),
    "truncate": (76, 92, 45, 92, 45),
    "truncate64": (None, 193, None, 193, None),
    "socket": (41, 359, 198, 281, 198),
    "socketcall": (None, 102, None, None, None),
}
"""System calls, with their numbers in the order of `ARCHITECTURES`. Before Linux 6.2, Landlock does not know
`truncate`."""
BY_REQUEST: "dict[str, tuple[tuple[int | None, ...], tuple[int, ...]]]" = {
    "ioctl": ((16, 54, 29, 54, 29), (0x40086602, 0x40046602, 0x40087602, 0x40047602, 0x401C5820)),
    "fcntl": ((72, 55, 25, 55, 25), (1036,)),
    "fcntl64": ((None, 221, None, 221, None), (1036,)),
}
"""System calls with the requests (argument 1) that set a file's flags, version, project or write hint."""


def leave_nothing() -> None:
    """Give up the rights to leave something, as far as this kernel can refuse them."""
    if landlock_version() > 0:
        restrict(["/"], ["/dev/null"], [])
    filter_calls(filter_program())


def filter_program() -> "list[tuple[int, int, int, int]]":
    """Return the filter of system calls, as instructions `(code, if true, if false, value)` (seccomp(2))."""
    number, architecture, argument = (BPF_LOAD, 0, 0, 0), (BPF_LOAD, 0, 0, 4), (BPF_LOAD, 0, 0, 24)
    allow, refuse = (BPF_RETURN, 0, 0, SECCOMP_ALLOW), (BPF_RETURN, 0, 0, SECCOMP_EPERM)
    program = [architecture]
    for place, audit in enumerate(ARCHITECTURES.values()):
        checks = [(wanted, [refuse]) for wanted in column(REFUSED, place)]
        for numbers, requests in BY_REQUEST.values():
            tests = [step for one in requests for step in ((BPF_IF_EQUAL, 0, 1, one), refuse)]
            checks += [(wanted, [argument, *tests, allow]) for wanted in column({"": numbers}, place)]
        block = [number]
        for wanted, steps in checks:  # each is skipped if the number is another one
            block += [(BPF_IF_EQUAL, 0, len(steps), wanted), *steps]
        block.append(allow)
        program += [(BPF_IF_EQUAL, 0, len(block), audit), *block]
    return [*program, allow]
