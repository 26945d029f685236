"""Which files a data set becomes: the name says what is in them, `train-00001-of-00012` which part."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from mcp_bench.servers.errors import WrongUseError, suggestion

COMPRESSIONS = {"gzip": ".gz", "zstd": ".zst"}
PARQUET = ".parquet"
_ENDINGS = re.compile(r"((?:\.(?:jsonl|ndjson|json|parquet))?(?:\.(?:gz|zst))?)$")


@dataclass(frozen=True)
class Layout:
    """`ending` starts with a dot or is empty; `shard_size` is in rows."""

    folder: Path
    stem: str
    ending: str
    compression: str | None
    shard_size: int | None

    @property
    def is_parquet(self) -> bool:
        return self.ending == PARQUET

    @property
    def out(self) -> Path:
        """The file, where there is one; where there are several, their common name."""
        return self.folder / f"{self.stem}{self.ending}"

    def files(self, rows: int) -> list[Path]:
        """Return the files for so many rows."""
        if self.shard_size is None:
            return [self.out]
        count = max(1, math.ceil(rows / self.shard_size))
        return [self.folder / f"{self.stem}-{n:05d}-of-{count:05d}{self.ending}" for n in range(count)]

    def is_shard(self, name: str) -> bool:
        """Say whether a file of this name is a part of an earlier data set of this one's name."""
        part = re.escape(self.stem) + r"-\d{5,}-of-\d{5,}" + re.escape(self.ending)
        return re.fullmatch(part, name) is not None


def layout(out: Path, compress: str | None, shard_size: int | None) -> Layout:
    """Return the layout for `--out`: Parquet where it ends in `.parquet`, else JSON lines, compressed where
    it ends in `.gz` or `.zst`. With `compress`, that ending is added to JSON lines that lack it.

    Raises:
        WrongUseError: an unknown compression, one that the name contradicts, or no rows in a file.
    """
    if compress is not None and compress not in COMPRESSIONS:
        raise WrongUseError(f"--compress {compress} is not known{suggestion(compress, COMPRESSIONS)}")
    if shard_size is not None and shard_size < 1:
        raise WrongUseError(f"--shard-size is {shard_size}: it must be 1 or more")
    found = _ENDINGS.search(out.name)
    ending = found[1] if found else ""
    stem = out.name.removesuffix(ending)
    named = next((name for name, suffix in COMPRESSIONS.items() if ending.endswith(suffix)), None)
    if named and compress and named != compress:
        raise WrongUseError(f"--compress {compress} does not fit the name {out.name}: leave one of them out")
    if ending.startswith(PARQUET):
        if named:
            raise WrongUseError(f"{out.name}: Parquet is compressed inside: use --compress {named}")
    elif compress and not named:
        ending += COMPRESSIONS[compress]
    return Layout(out.parent, stem, ending, compress or named, shard_size)
