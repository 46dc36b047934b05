"""A raw file, and the archive that may contain it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceFile:
    """A raw file, with the checksum of `NAME.gz` if it is published gzipped."""

    name: str
    sha256: str
    gzip_sha256: str | None = None

    @property
    def gzip_name(self) -> str:
        """The name of the gzipped file."""
        return f"{self.name}.gz"


@dataclass(frozen=True)
class Archive:
    """The archive that contains all of a source's files."""

    name: str
    sha256: str
