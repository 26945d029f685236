"""A C program that does not build, or not with `make` alone."""

from __future__ import annotations

import random

from mcp_bench.servers.codeworld.case import Case, Check

MAIN = """\
#include <stdio.h>
#include <stdlib.h>
#include "{lib}.h"

int main(int argc, char **argv) {{
    long total = 0;
    for (int i = 1; i < argc; i++) total += {function}(atol(argv[i]));
    printf("%ld\\n", total);
    return 0;
}}
"""
HEADER = "#ifndef {guard}\n#define {guard}\nlong {function}(long value);\n#endif\n"
LIB = '#include "{lib}.h"\n\nlong {function}(long value) {{\n    return value * {factor} + {offset};\n}}\n'
MAKEFILE = """\
CC = cc
CFLAGS = -O1 -Wall -Werror

{program}: main.o {lib}.o
\t$(CC) -o $@ main.o {lib}.o

%.o: %.c {lib}.h
\t$(CC) $(CFLAGS) -c $<

clean:
\trm -f *.o {program}

.PHONY: clean
"""
NAMES = ("tally", "gauge", "meter", "ledger", "scale", "toll")
VERBS = ("weigh", "charge", "score", "rate", "price")


def make(rng: random.Random, level: int) -> Case:
    """Break as many things as the level says: in the Makefile, a header, a source."""
    lib, program = rng.sample(NAMES, 2)
    factor, offset = rng.randrange(2, 9), rng.randrange(1, 50)
    names = {
        "lib": lib,
        "program": program,
        "function": rng.choice(VERBS),
        "guard": f"{lib.upper()}_H",
        "factor": factor,
        "offset": offset,
    }
    right = {
        "Makefile": MAKEFILE.format(**names),
        "main.c": MAIN.format(**names),
        f"{lib}.h": HEADER.format(**names),
        f"{lib}.c": LIB.format(**names),
    }
    faults = (
        ("Makefile", f"-o $@ main.o {lib}.o", "-o $@ main.o"),
        ("Makefile", "\t$(CC) $(CFLAGS) -c $<", "        $(CC) $(CFLAGS) -c $<"),
        (f"{lib}.h", f"long {names['function']}(long value);", f"int {names['function']}(long value);"),
        ("main.c", f'"{lib}.h"', f'"lib{lib}.h"'),
        (f"{lib}.c", "long value) {", "long value {"),
        ("main.c", "#include <stdio.h>\n", ""),
    )
    files = dict(right)
    for file, good, bad in rng.sample(faults, level):
        files[file] = files[file].replace(good, bad, 1)
    given = [rng.randrange(1000) for _ in range(5)]
    total = sum(one * factor + offset for one in given)
    words = " ".join(map(str, given))
    return Case(
        prompt=(
            f"`make` in /work must build the program `{program}` from a clean checkout, and does not. Mend it. Keep the "
            "compiler's flags, and what the program computes."
        ),
        files=files,
        checks=(
            Check(
                "make builds a program that computes the same",
                f"cd /work && make clean >/dev/null 2>&1; rm -f *.o {program}; make >/dev/null 2>&1 && ./{program} {words}",
                str(total),
                seconds=60,
            ),
            Check(
                "the flags are kept",
                "cd /work && grep -c '^CFLAGS = -O1 -Wall -Werror$' Makefile",
                "1",
                guards=True,
            ),
        ),
        solution="cd /work\n" + "\n".join(f"cat > {path} <<'EOF'\n{text}EOF" for path, text in right.items()),
    )
