"""The feature Image: pictures in a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer.runtime.lazy import tf
from trainer.workloads.declarations.features.base import Feature
from trainer.workloads.encoding.columns import Column, TableFacts
from trainer.workloads.encoding.decoding import Decoding
from trainer.workloads.encoding.image_files import decode_image
from trainer.workloads.encoding.images import as_png, parse_image, pixels_of


@dataclass(frozen=True)
class Image(Feature, Decoding):
    """A picture, stored as uint8 pixels; the column has the name of its file.

    The files are in the folders that `prepare.files` has beside the table; a name may lack the
    suffix, and may have folders in front. Models get a Keras input, float32 [height, width,
    channels] from 0 to 1. In training a picture is shifted by up to a sixteenth of its height.
    """

    is_spelled = False

    def check(self, features: Sequence[Feature]) -> None:
        super().check(features)
        try:
            self.check_decoding()
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from error

    def columns(self, facts: TableFacts) -> list[Column]:
        return [self.raw_column()]

    def raw_column(self) -> Column:
        """Return the input of a picture, its pixels as they are stored."""
        return self.column("image", self.channels, shape=self.shape)

    def tensor_spec(self) -> Any:
        return tf.TensorSpec([None, *self.shape], tf.uint8, name=self.name)

    def example_spec(self) -> Any:
        return tf.io.FixedLenFeature([], tf.string)

    def decoded(self, parsed: Any) -> Any:
        return pixels_of(parsed, self.shape)

    def parse(self, value: Any) -> np.ndarray:
        if value is None:
            raise ValueError(f"the field {self.name!r} is missing: it holds a picture")
        try:
            return parse_image(value, self.shape, self.decode)
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from error

    def decode(self, data: bytes) -> np.ndarray:
        """Return the pixels of a file as they are stored."""
        return decode_image(data, self).reshape(self.shape)

    def plain_column(self, values: list[Any]) -> np.ndarray | None:
        return None

    def as_field(self, value: Any) -> Any:
        return as_png(np.asarray(value))
