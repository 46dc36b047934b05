"""Kinds of files, told by their first bytes, and texts of any encoding as UTF-8."""

import codecs
import contextlib
import gzip
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from components.prepare_examples.errors import DataError
from components.prepare_examples.tfrecords.records import HEAD_BYTES as RECORD_HEAD
from components.prepare_examples.tfrecords.records import frame_head
from trainer.workloads.encoding.image_files import SUFFIXES

PARQUET, RECORDS, LINES, ARRAY, TEXT = "parquet", "records", "JSON lines", "JSON array", "text"
OBJECT = "JSON object"  # of labels, or of further columns, by the name of a file
GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
GZIP_ERRORS = (gzip.BadGzipFile, EOFError, zlib.error)  # of reading a damaged gzip file
HEAD_BYTES = 1 << 16
UTF_8 = "utf-8"
FEWEST_ZEROS = 0.02  # of the bytes of UTF-16
CONTROL = re.compile(r"[\0-\x08\x0e-\x1f\ue000-\uf8ff]")  # of no text
TAR_AT = 257
SAVE = "save it as CSV or Parquet"
OTHERS = {
    b"ARROW1": ("an Arrow file (Feather)", "convert it with pandas.read_feather and to_parquet"),
    b"FEA1": ("a Feather file", "convert it with pandas.read_feather and to_parquet"),
    b"ORC": ("an ORC file", "convert it with pandas.read_orc and to_parquet"),
    b"Obj\x01": ("an Avro file", "export it as Parquet, or convert it with fastavro and pandas"),
    b"\xd0\xcf\x11\xe0": ("an old Excel or Office file", SAVE),
    b"SQLite format 3": ("an SQLite database", "export its table as CSV"),
    b"\x89HDF": ("an HDF5 file", "convert it with pandas.read_hdf and to_parquet"),
    b"\x93NUMPY": ("a NumPy file", SAVE),
    b"PARE": ("an encrypted Parquet file", "decrypt it"),
    b"BZh": ("a bzip2 archive", "unpack it"),
    b"\xfd7zXZ": ("an xz archive", "unpack it"),
    b"\x28\xb5\x2f\xfd": ("a zstd archive", "unpack it"),
    b"%PDF": ("a PDF", SAVE),
    b"version https://git-lfs": ("a Git LFS pointer", "fetch the file with git lfs pull"),
}

TEXTS = (
    (r"(?i)<(!doctype|html|\?xml)", "a web page or XML", "give a CSV file"),
    (r"(?i)(%.*\s+)*@relation\s", "an ARFF file", "convert it with scipy.io.arff and pandas"),
    (
        r"[-+.\d]+( \d+:[-+.e\d]+)+\s*\n",
        "a LIBSVM file",
        "convert it with sklearn.datasets.load_svmlight_file and pandas",
    ),
)


def file_kind(path: str) -> str:
    """Return PARQUET, RECORDS, LINES, ARRAY or OBJECT (of JSON), or TEXT.

    Raises:
        DataError: the file is of another kind; names it and what to do.
    """
    head = read_head(path)
    if head.startswith(b"PAR1"):
        if is_gzip(path):
            raise DataError(f"{path} is a gzipped Parquet file: unpack it")
        return PARQUET
    if is_record(head):
        return RECORDS
    if head.startswith(ZIP):
        raise DataError(f"{path} is {_zip_content(path)}")
    if head[TAR_AT:].startswith(b"ustar"):
        raise DataError(f"{path} is a tar archive: unpack it")
    for magic, (name, remedy) in OTHERS.items():
        if head.startswith(magic):
            raise DataError(f"{path} is {name}: {remedy}")
    return _text_kind(head.decode(encoding_of(head), errors="replace"), path)


def read_head(path: str) -> bytes:
    """Return a file's first bytes, unpacked if it is gzipped."""
    with whole_gzip(path), open_bytes(path) as file:
        return file.read(HEAD_BYTES)


def is_gzip(path: str) -> bool:
    """Return whether a file is gzipped; a plain record of 35,615 bytes has gzip's first two."""
    with Path(path).open("rb") as file:
        start = file.read(RECORD_HEAD)
    return start.startswith(GZIP) and not is_record(start)


def is_record(head: bytes) -> bool:
    """Return whether the first bytes are the length of a TFRecord and its checksum."""
    if len(head) < RECORD_HEAD:
        return False
    return head[:RECORD_HEAD] == frame_head(struct.unpack("<Q", head[:8])[0])


def open_bytes(path: str) -> IO[bytes]:
    """Open a file, unpacked if it is gzipped."""
    return cast(IO[bytes], gzip.open(path, "rb") if is_gzip(path) else Path(path).open("rb"))


def open_text(path: str) -> IO[bytes]:
    """Open a text as UTF-8 with newlines, whatever its encoding, line ends and compression."""
    head, file = read_head(path), open_bytes(path)
    if is_plain(head):
        return file
    return cast(IO[bytes], io.BufferedReader(_Recoded(file, head, path), HEAD_BYTES))


def is_plain(head: bytes) -> bool:
    """Return whether a text with these first bytes is UTF-8 with newlines."""
    return encoding_of(head) == UTF_8 and not _has_only_returns(head)


def encoding_of(head: bytes) -> str:
    """Return the encoding of a text: UTF-16, by its mark or its zeros, or else UTF-8.

    Half of the bytes of ASCII are zeros; of other alphabets, those of separators and digits are.
    """
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    even, odd = head[::2].count(0), head[1::2].count(0)
    if max(even, odd) <= max(len(head) * FEWEST_ZEROS, 2 * min(even, odd)):
        return UTF_8
    encoding = "utf-16-be" if even > odd else "utf-16-le"
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return UTF_8
    return UTF_8 if CONTROL.search(text) else encoding


@contextlib.contextmanager
def whole_gzip(path: str) -> Iterator[None]:
    """Raise DataError if a gzip file that is read meanwhile is truncated or damaged."""
    try:
        yield
    except GZIP_ERRORS as error:
        raise DataError(
            f"{path} is not a complete gzip file: {error}; download or copy it again"
        ) from error


class _Recoded(io.RawIOBase):
    """A text that is converted to UTF-8 with newlines while it is read."""

    def __init__(self, file: IO[bytes], head: bytes, path: str) -> None:
        encoding = encoding_of(head)
        errors = "surrogateescape" if encoding == UTF_8 else "strict"
        newline = None if _has_only_returns(head) else ""
        self._text = io.TextIOWrapper(file, encoding, errors, newline)
        self._path = path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        try:
            text = self._text.read(max(len(buffer) // 4, 1))  # a character has at most 4 bytes
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self._path} is not complete UTF-16 ({error.reason}); export it again"
            ) from error
        data = text.encode(errors="surrogateescape")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._text.close()
        super().close()


def _has_only_returns(head: bytes) -> bool:
    """Return whether lines end as on old Macintoshes."""
    return b"\r" in head and b"\n" not in head


def _text_kind(text: str, path: str) -> str:
    content = text.lstrip("\ufeff \t\r\n")
    if "\0" in content:
        raise DataError(f"{path} is neither text nor Parquet, but of an unknown kind: {SAVE}")
    for pattern, name, remedy in TEXTS:
        if re.match(pattern, content):
            raise DataError(f"{path} is {name}: {remedy}")
    if re.match(r'\{\s*["}]', content):
        return OBJECT if _is_object(content) else LINES
    return ARRAY if re.match(r"\[\s*\{", content) else TEXT


def _is_object(content: str) -> bool:
    """Return whether JSON is one object of files: over several lines, or by a picture's name."""
    first_name = re.match(r'\{\s*"([^"]*)"\s*:', content)
    if first_name and first_name[1].lower().endswith(SUFFIXES):
        return True
    line, newline, _ = content.partition("\n")
    try:
        json.loads(line)
    except ValueError:
        return bool(newline)
    return False


def _zip_content(path: str) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:
        return "a damaged zip archive: copy it again"
    if "xl/workbook.xml" in names or "content.xml" in names:
        return f"a workbook of Excel or another office program: {SAVE}"
    return f"a zip archive of {', '.join(names[:3])}: unpack it and give the files"
