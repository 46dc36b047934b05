"""Files that users name on the command line: read whole, within a limit."""

import stat
from pathlib import Path

MAX_TEXT_BYTES = 10_000_000
STREAMS = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")  # `<(command)` in a shell, and `-`


class FileError(ValueError):
    """A file is of another kind, or too large; the message follows its name."""


def read_file(path: Path, *, max_bytes: int, may_stream: bool = False) -> bytes:
    """Return the content of a file.

    A pipe could wait for ever and a device be without an end, so only the pipes of a shell's
    process substitution are read, with `may_stream`.

    Raises:
        FileError: it is no regular file, or has more than `max_bytes`.
        OSError: it cannot be read.
    """
    status = path.stat()
    is_stream = may_stream and stat.S_ISFIFO(status.st_mode) and str(path).startswith(STREAMS)
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) or is_stream):
        raise FileError("it is no regular file; give the path of one")
    if status.st_size > max_bytes:
        raise FileError(f"it has {status.st_size:,} bytes; at most {max_bytes:,} are allowed")
    with path.open("rb") as file:  # also names a folder in the error
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise FileError(f"it has over {max_bytes:,} bytes, the most that are allowed")
    return data


def read_text_file(path: Path, *, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Return the text of a file in UTF-8, with or without a byte order mark.

    Raises:
        FileError: as `read_file`, or it is not UTF-8.
        OSError: it cannot be read.
    """
    try:
        return read_file(path, max_bytes=max_bytes).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(f"byte {error.start} is not UTF-8") from error
