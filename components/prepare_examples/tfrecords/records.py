"""TFRecord files, written a whole batch of records at a time.

A record is its length (8 bytes), the length's masked CRC32C, its content and the content's masked
CRC32C (https://www.tensorflow.org/tutorials/load_data/tfrecord). TensorFlow's own writer makes the
same bytes, but takes single records, which doubles the time of preparing, and its import takes
seconds. The file's digests are computed while it is written, so it is not read again.
"""

import base64
import contextlib
import hashlib
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

# Level 1 writes 140,000 MNIST images/s on one core and level 6 (zlib's default) 70,000, for files
# that are 10 % larger.
COMPRESSION_LEVEL = 1
MEMORY_LEVEL = 9
GZIP_WINDOW_BITS = 31
# Of images, a sample of pieces tells whether they are worth compressing.
PIECE_BYTES, PIECES_PER_SAMPLED = 4096, 16
MAX_COMPRESSED = 7 / 8  # of the size

HEAD_BYTES, TAIL_BYTES = 12, 4
CRC_SHIFT = 0xA282EAD8


class RecordFile:
    """An open TFRecord file, compressed and digested while it is written."""

    def __init__(self, file: IO[bytes], *, compression: str) -> None:
        self._file = file
        self._sha256, self._crc32c = hashlib.sha256(), 0
        self._compressor = _compressor() if compression else None

    def write(self, framed: Any) -> None:
        """Write whole framed records: bytes, a buffer or a contiguous array."""
        self._put(self._compressor.compress(framed) if self._compressor else framed)

    def finish(self) -> None:
        """Write the rest of the compressed data."""
        if self._compressor:
            self._put(self._compressor.flush())

    def digests(self) -> dict[str, str]:
        """Return the file's digests for the manifest, CRC32C as Cloud Storage shows it."""
        encoded = base64.b64encode(self._crc32c.to_bytes(4, "big")).decode()
        return {"sha256": self._sha256.hexdigest(), "crc32c": encoded}

    def _put(self, data: Any) -> None:
        self._file.write(data)
        self._sha256.update(data)
        self._crc32c = google_crc32c.extend(self._crc32c, data)


@contextlib.contextmanager
def record_file(path: Path, *, compression: str) -> Iterator[RecordFile]:
    """Open a TFRecord file for writing, which appears under its name when the context ends.

    Without a compression its content may come from `compress_images`.
    """
    unfinished = path.with_name(f".{path.name}.partial")
    with unfinished.open("wb") as file:
        records = RecordFile(file, compression=compression)
        yield records
        records.finish()
    os.replace(unfinished, path)


def compress_images(rows: NDArray[np.uint8]) -> bytes:
    """Return framed images as one member of a gzip file (RFC 1952, section 2.2).

    Photographs become 3 to 12 % smaller, for most of the time of preparing and half of the time of
    reading, so such a member holds its rows uncompressed.
    """
    pieces = rows.reshape(-1)[: rows.size // PIECE_BYTES * PIECE_BYTES].reshape(-1, PIECE_BYTES)
    sample = pieces[::PIECES_PER_SAMPLED].tobytes()
    is_smaller = len(_member(sample, COMPRESSION_LEVEL)) < MAX_COMPRESSED * len(sample)
    return _member(rows, COMPRESSION_LEVEL if is_smaller else 0)


def _member(data: Any, level: int) -> bytes:
    member = _compressor(level, zlib.Z_RLE)
    return member.compress(data) + member.flush()


def _compressor(
    level: int = COMPRESSION_LEVEL, strategy: int = zlib.Z_DEFAULT_STRATEGY
) -> "zlib._Compress":
    return zlib.compressobj(level, zlib.DEFLATED, GZIP_WINDOW_BITS, MEMORY_LEVEL, strategy)


def frame_head(num_bytes: int) -> bytes:
    """Return the head of a record of `num_bytes`."""
    length = struct.pack("<Q", num_bytes)
    return length + frame_tail(length)


def frame_tail(content: bytes) -> bytes:
    """Return the masked CRC32C of some content."""
    crc32c = google_crc32c.value(content)
    return struct.pack("<I", ((crc32c >> 15 | crc32c << 17) + CRC_SHIFT) & 0xFFFFFFFF)


def frame_row(record: bytes) -> bytes:
    """Return one framed record."""
    return frame_head(len(record)) + record + frame_tail(record)


def seal_rows(framed: NDArray[np.uint8]) -> None:
    """Write the CRC of each row's content to its end; a row is a framed record, all of one size."""
    sums = [google_crc32c.value(row) for row in framed[:, HEAD_BYTES:-TAIL_BYTES]]
    tails = masked_all(np.array(sums, np.uint64))
    framed[:, -TAIL_BYTES:] = tails.view(np.uint8).reshape(-1, TAIL_BYTES)


def masked_all(sums: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return each sum masked as in `frame_tail`; bits above the 32nd are dropped."""
    rotated = sums >> np.uint64(15) | sums << np.uint64(17)
    return (rotated + np.uint64(CRC_SHIFT)).astype("<u4")
