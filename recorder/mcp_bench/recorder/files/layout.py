"""File names of a data set: the format follows from the ending, shards are `train-00001-of-00012`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from mcp_bench.servers.errors import WrongUseError, suggestion

COMPRESSIONS = {"gzip": ".gz", "zstd": ".zst"}
PARQUET = ".parquet"
_SHARD = r"-\d{5,}-of-\d{5,}"
_ENDINGS = re.compile(r"((?:\.(?:jsonl|ndjson|json|parquet))?(?:\.(?:gz|zst))?)$")


@dataclass(frozen=True)
class Layout:
    """Files of a data set. `ending` starts with a dot or is empty; `shard_size` is in rows."""

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
        """The single file, or the common name of the shards."""
        return self.folder / f"{self.stem}{self.ending}"

    def files(self, rows: int) -> list[Path]:
        """Return the files for this number of rows."""
        if self.shard_size is None:
            return [self.out]
        count = max(1, math.ceil(rows / self.shard_size))
        return [self.folder / f"{self.stem}-{n:05d}-of-{count:05d}{self.ending}" for n in range(count)]

    def is_shard(self, name: str) -> bool:
        """Return whether a file name is a shard of this data set or an earlier one of the same name."""
        part = re.escape(self.stem) + _SHARD + re.escape(self.ending)
        return re.fullmatch(part, name) is not None

    def is_data(self, name: str) -> bool:
        """Return whether a file name is the single file or a shard, of this data set or an earlier one."""
        return name == self.out.name or self.is_shard(name)


def layout(out: Path, compress: str | None, shard_size: int | None) -> Layout:
    """Return the layout for `--out`.

    `.parquet` selects Parquet, any other name JSON lines. `.gz` and `.zst` compress JSON lines;
    `compress` adds the ending if it is missing.

    Raises:
        WrongUseError: the compression is unknown or contradicts the name, or `shard_size` is below 1.
    """
    if compress is not None and compress not in COMPRESSIONS:
        raise WrongUseError(f"unknown --compress {compress}{suggestion(compress, COMPRESSIONS)}")
    if shard_size is not None and shard_size < 1:
        raise WrongUseError(f"--shard-size must be 1 or more, not {shard_size}")
    found = _ENDINGS.search(out.name)
    ending = found[1] if found else ""
    stem = out.name.removesuffix(ending)
    named = next((name for name, suffix in COMPRESSIONS.items() if ending.endswith(suffix)), None)
    if named and compress and named != compress:
        raise WrongUseError(
            f"--compress {compress} contradicts the file name {out.name}: rename the file or drop the option"
        )
    if ending.startswith(PARQUET):
        if named:
            raise WrongUseError(
                f"{out.name}: Parquet compresses internally. End the name with .parquet and use "
                f"--compress {named}"
            )
    elif compress and not named:
        ending += COMPRESSIONS[compress]
    return Layout(out.parent, stem, ending, compress or named, shard_size)


def common_name(name: str) -> str:
    """Return the name of the data set that a file belongs to, of which its manifest has its name."""
    ending = _ENDINGS.search(name)
    stem = name.removesuffix(ending[1]) if ending else name
    return re.sub(f"{_SHARD}$", "", stem) + name.removeprefix(stem)
