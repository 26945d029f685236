"""Write files so that a crash leaves the old content or the new, never a part."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_atomic(path: Path, content: str | bytes, mode: int | None = None) -> None:
    """Replace the content of a file; a reader sees the old content or the new one. Its owner stays.

    Args:
        path: of the file.
        content: the new one; text is written as UTF-8.
        mode: its permissions, from its creation; None for those that the umask leaves.

    Raises:
        OSError: it cannot be written. The file is as it was.
    """
    beside = path.with_name(f".{path.name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(beside, flags, 0o666 if mode is None else 0o600), "wb") as file:
        try:
            with suppress(OSError):  # there is none yet, or only root could give it back to its owner
                old = path.lstat()
                os.fchown(file.fileno(), old.st_uid, old.st_gid)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
