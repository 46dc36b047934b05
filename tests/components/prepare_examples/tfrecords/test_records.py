"""TFRecord files and their compression."""

import gzip

import numpy as np
import pytest

from components.prepare_examples.tfrecords.records import compress_images

pytestmark = pytest.mark.fast


def test_images_are_compressed_if_that_makes_them_smaller():
    chance = np.random.default_rng(0)
    noise = chance.integers(0, 256, (20, 2000), np.uint8)
    for rows, largest in ((np.zeros((20, 2000), np.uint8), 500), (noise, 40_100)):
        member = compress_images(rows)
        assert gzip.decompress(member + member) == rows.tobytes() * 2
        assert len(member) < largest
