"""TFRecord files, written a whole batch of records at a time.

A record is its length (8 bytes), the length's masked CRC32C, its content and the content's masked
CRC32C (https://www.tensorflow.org/tutorials/load_data/tfrecord). TensorFlow's own writer makes the
same bytes, but it takes single records, which costs as much as all the rest, and its import takes
seconds. The file's digests are made on the way, so that it is not read again.
"""

import base64
import contextlib
import hashlib
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

# Level 1 writes 140,000 MNIST images/s on one core and level 6 (zlib's default) 70,000, for files
# that are 10 % larger.
COMPRESSION_LEVEL = 1
MEMORY_LEVEL = 9
GZIP_WINDOW_BITS = 31

COMPRESSIONS = {"gzip": "GZIP", "none": ""}
SUFFIXES = {"GZIP": ".tfrecord.gz", "": ".tfrecord"}

HEAD_BYTES, TAIL_BYTES = 12, 4
CRC_SHIFT = 0xA282EAD8


class RecordFile:
    """An open file: what is written is compressed, counted and summed."""

    def __init__(self, file: IO[bytes], *, compression: str, strategy: int) -> None:
        self._file = file
        self._sha256, self._crc32c = hashlib.sha256(), 0
        self._compressor = None
        if compression:
            self._compressor = zlib.compressobj(
                COMPRESSION_LEVEL, zlib.DEFLATED, GZIP_WINDOW_BITS, MEMORY_LEVEL, strategy
            )

    def write(self, framed: Any) -> None:
        """Writes whole framed records: bytes, a buffer or an array without gaps."""
        self._put(self._compressor.compress(framed) if self._compressor else framed)

    def finish(self) -> None:
        """Writes what the compressor still holds."""
        if self._compressor:
            self._put(self._compressor.flush())

    def digests(self) -> dict[str, str]:
        """The manifest's digests of all that was written: SHA-256 and, as gs:// has it, CRC32C."""
        encoded = base64.b64encode(self._crc32c.to_bytes(4, "big")).decode()
        return {"sha256": self._sha256.hexdigest(), "crc32c": encoded}

    def _put(self, data: Any) -> None:
        import google_crc32c

        self._file.write(data)
        self._sha256.update(data)
        self._crc32c = google_crc32c.extend(self._crc32c, data)


@contextlib.contextmanager
def record_file(
    path: Path, *, compression: str, strategy: int = zlib.Z_DEFAULT_STRATEGY
) -> Iterator[RecordFile]:
    """A file of records, which is whole when the context has ended.

    Args:
        path: replaced if it is there.
        compression: `GZIP` or empty.
        strategy: zlib's; Z_RLE suits images.
    """
    with path.open("wb") as file:
        found = RecordFile(file, compression=compression, strategy=strategy)
        yield found
        found.finish()


def frame_head(num_bytes: int) -> bytes:
    """What comes before a record of so many bytes."""
    import google_crc32c

    length = struct.pack("<Q", num_bytes)
    return length + struct.pack("<I", _masked(google_crc32c.value(length)))


def frame_row(record: bytes) -> bytes:
    """One framed record."""
    import google_crc32c

    tail = struct.pack("<I", _masked(google_crc32c.value(record)))
    return frame_head(len(record)) + record + tail


def seal_rows(framed: "NDArray[np.uint8]") -> None:
    """Puts the CRC of each row's content at its end; a row is a framed record, all of a size."""
    import google_crc32c
    import numpy as np

    sums = [google_crc32c.value(row) for row in framed[:, HEAD_BYTES:-TAIL_BYTES]]
    tails = _masked_all(np.array(sums, np.uint64))
    framed[:, -TAIL_BYTES:] = tails.view(np.uint8).reshape(-1, TAIL_BYTES)


def frame_records(records: "pa.Array") -> "pa.Buffer":
    """The framed bytes of an array of binary values."""
    import google_crc32c
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(records):
        return pa.py_buffer(b"")
    sums = [google_crc32c.value(record) for record in records.to_pylist()]
    tails = _masked_all(np.array(sums, np.uint64))
    lengths = pc.binary_length(records).dictionary_encode()
    heads = pa.array([frame_head(length) for length in lengths.dictionary.to_pylist()], pa.binary())
    framed = pc.binary_join_element_wise(
        heads.take(lengths.indices), records, fixed_binary(tails.view(np.uint8), TAIL_BYTES), b""
    )
    return _content(framed)


def fixed_binary(data: "NDArray[np.uint8]", width: int) -> "pa.Array":
    """Contiguous bytes as an array of binary values of one width."""
    import numpy as np
    import pyarrow as pa

    count = data.size // width
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def _content(values: "pa.Array") -> "pa.Buffer":
    """The bytes of all values of an array that is no slice."""
    import numpy as np

    _, offsets, data = values.buffers()
    num_bytes = int(np.frombuffer(offsets, np.int32)[len(values)])
    return data.slice(0, num_bytes)


def _masked(crc32c: int) -> int:
    return ((crc32c >> 15 | crc32c << 17) + CRC_SHIFT) & 0xFFFFFFFF


def _masked_all(sums: "NDArray[np.uint64]") -> "NDArray[np.uint32]":
    """`_masked` of each sum; the bits above the 32nd are cut off."""
    import numpy as np

    rotated = sums >> np.uint64(15) | sums << np.uint64(17)
    return (rotated + np.uint64(CRC_SHIFT)).astype("<u4")
