"""The form in which picture files are decoded, the same in preparing and in requests."""

import math
from dataclasses import KW_ONLY, dataclass

FITS = ("stretch", "crop", "pad")
CHANNELS = (1, 3, 4)


@dataclass(frozen=True)
class Decoding:
    """Size, channels and range of pictures.

    Attributes:
        size: height and width, to which files of another size are resized.
        channels: 1 for grey, 3 for colour, 4 for colour and transparency.
        fit: `stretch` pictures to the size, `crop` the middle, or `pad` with black.
        white: the value of white in pictures with more than 8 bits, such as 4095 of 12 bits in a
            16-bit file; default: 65535, for which dark pictures of 16 bits are refused.
    """

    _: KW_ONLY
    size: tuple[int, int] = (64, 64)
    channels: int = 3
    fit: str = "stretch"
    white: float | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a picture as stored: without the channel if there is one."""
        return (*self.size,) if self.channels == 1 else (*self.size, self.channels)

    @property
    def plain(self) -> "Decoding":
        """The form alone, without what a subclass declares besides."""
        return Decoding(size=self.size, channels=self.channels, fit=self.fit, white=self.white)

    @property
    def num_pixels(self) -> int:
        """The bytes of a stored picture."""
        return math.prod(self.size) * self.channels

    def check_decoding(self) -> None:
        """Raise ValueError if pictures cannot be decoded in this form; names the argument."""
        size = self.size
        is_pair = isinstance(size, tuple | list) and len(size) == 2  # noqa: PLR2004
        if not is_pair or not all(type(length) is int and length > 0 for length in size):
            raise ValueError(f"size is {size!r}; it must be (height, width), such as (64, 64)")
        if self.channels not in CHANNELS:
            raise ValueError(f"channels is {self.channels!r}; it must be 1, 3 or 4")
        if self.fit not in FITS:
            raise ValueError(f"fit is {self.fit!r}; it must be one of {', '.join(FITS)}")
        if self.white is not None and not (isinstance(self.white, int | float) and self.white > 0):
            raise ValueError(f"white is {self.white!r}; it must be a number above 0, such as 4095")
