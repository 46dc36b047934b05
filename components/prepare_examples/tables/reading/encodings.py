"""Texts that are not UTF-8: the rows, or the whole file, in another encoding, and the remedy."""

import re
import shlex

from components.prepare_examples.tables.reading.kinds import PARQUET, file_kind, is_gzip, open_text
from trainer import Json

NOT_UTF_8 = "is not UTF-8"
WESTERN, JAPANESE = "WINDOWS-1252", "CP932"
NAMES = {WESTERN: "Windows-1252", JAPANESE: "Shift-JIS"}
MOST_LINES = 1_000  # from which the encoding of a file is guessed
FEW = 0.1  # of the lines: valid UTF-8 by chance, or bytes that an encoding rarely has
OTHER = re.compile(rb"[\x80-\xff]+")
# Letters of the West stand alone or in pairs; of 0x80 to 0x9f it has quotes, dashes, € and Š.
NOT_WESTERN = re.compile(rb"[\x80-\xff]{3,}|[\x81-\x83\x86-\x88\x8d\x8f\x90\x98\x9d]")
DOUBLE = re.compile(rb"[\x81-\x9f][\x40-\x7e\x80-\xfc]")  # symbols, kana and common kanji
MOST_SHOWN = 30


def remedy(path: str, where: str) -> str:
    """Return what to do about a file that is not UTF-8, as its row `where` shows.

    A file with lines of UTF-8 is not converted as a whole: that would damage these.
    """
    sample, num_lines, num_others = list[bytes](), 0, 0
    with open_text(path) as file:
        for line in file:
            num_lines += not line.isascii()
            if not _is_utf_8(line):
                num_others += 1
                sample += [line] * (num_others <= MOST_LINES)
    if num_lines - num_others > FEW * num_lines:
        return (
            f"{where} is in another encoding than the rest: {num_others:,} of {num_lines:,} lines"
            " with letters beyond ASCII are not UTF-8; write them again in UTF-8, or remove them"
        )
    encoding = _encoding(b"".join(sample))
    if not encoding:
        return (
            "the file is in another encoding, which is not known: save it as UTF-8 in the program"
            " that wrote it"
        )
    word = next(word for word in re.split(rb"[,;|\"\s]", sample[0]) if not word.isascii())
    shown = word.decode(encoding, errors="replace")[:MOST_SHOWN]
    name = shlex.quote(path)
    source = f"zcat {name} | iconv" if is_gzip(path) else "iconv"
    file_name = "" if is_gzip(path) else f" {name}"
    return (
        f"in {NAMES[encoding]} it has {shown!r}: if that is right, convert the file to UTF-8, as"
        f" with {source} -f {encoding} -t UTF-8{file_name} > NEW"
    )


def explained(entry: Json) -> str:
    """Return the reason of a bad row, with what to do if it is not UTF-8."""
    reason = str(entry["reason"])
    if not reason.endswith(NOT_UTF_8) or file_kind(entry["file"]) == PARQUET:
        return reason
    where = f"row {entry['row']:,}"
    return f"{reason}; {remedy(entry['file'], where)}"


def _is_utf_8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _encoding(sample: bytes) -> str:
    """Return the encoding of texts that are not UTF-8, or "" if it is neither of the known ones."""
    size = sum(map(len, OTHER.findall(sample)))
    if sum(map(len, NOT_WESTERN.findall(sample))) <= FEW * size:
        return WESTERN
    try:
        sample.decode(JAPANESE)
    except UnicodeDecodeError:
        return ""
    rest = OTHER.findall(DOUBLE.sub(b"", sample))
    return JAPANESE if sum(map(len, rest)) <= size / 2 else ""
