"""Class folders of images of any size and kind."""

import hashlib
import io
import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from components.prepare_examples.errors import DataError
from components.prepare_examples.fingerprint import read_input
from components.prepare_examples.images import shards
from components.prepare_examples.raw_data import progress
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.split_rule import SplitRule
from tests.support.data.files import write_files
from tests.support.data.prepared import files_of, quarantined
from trainer.errors import ConfigError
from trainer.workloads.encoding.decoding import Decoding
from trainer.workloads.encoding.image_files import decode_image

SIZE = (6, 8)
THREADS = ("--direct_num_workers=2", "--direct_running_mode=multi_threading")
ONE_THREAD = ("--direct_num_workers=1",)
COLOURS = {"rose": (200, 10, 10), "iris": (10, 10, 200), "été": (10, 200, 10)}


def declare(more: str = "") -> str:
    """Return the declaration of images."""
    return f"ImageFolder(size={SIZE}, {more})"


def picture(colour=(1, 2, 3), size=(12, 9), kind: str = "PNG", mode: str = "RGB", **options):
    """Return the content of an image file."""
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).convert(mode).save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.fixture
def flowers(tmp_path) -> Path:
    """A folder of three classes with 20 images of several sizes each."""
    return write_files(
        tmp_path / "flowers",
        {
            f"{name}/{place}.png": picture(
                (red + place, green, blue + number), (5 + place, 3 + place % 4)
            )
            for number, (name, (red, green, blue)) in enumerate(COLOURS.items())
            for place in range(20)
        },
    )


ORDER = ["été", "rose", "iris"]


@pytest.mark.parametrize(
    ("label", "names", "in_order"),
    [
        ("", sorted(ORDER), sorted(ORDER)),
        (f"label=Classes(values={ORDER})", ORDER, ORDER),
        ('label=Binary(positive="rose")', ["not rose", "rose"], ["iris", "rose"]),
    ],
    ids=["folders", "classes", "binary"],
)
def test_each_image_is_an_example_of_the_declared_size(run, flowers, label, names, in_order):
    found = run(declare(label), flowers)
    assert found.manifest["labels"] == names
    assert found.rows == {"read": 60, "written": 60}
    form = {"size": list(SIZE), "channels": 3, "fit": "stretch", "white": None}
    assert found.manifest["image"] == form
    expected = {
        bytes((red + place, green, blue + at)) * 48: in_order.index(name) if name in in_order else 0
        for at, (name, (red, green, blue)) in enumerate(COLOURS.items())
        for place in range(20)
    }
    assert len(found.records()) == 60
    assert dict(zip(found.values("image"), found.values("label"), strict=True)) == expected


def test_statistics_describe_the_images(run, flowers):
    found = run(declare(), flowers)
    for split, count in zip(("train", "eval", "test"), found.counts, strict=True):
        statistics = found.statistics(split)
        images, labels = found.values("image", split), found.values("label", split)
        assert statistics["num_examples"] == len(images) == count
        pixels = np.stack([np.frombuffer(image, np.uint8).reshape(-1, 3) for image in images])
        assert statistics["pixels"]["mean"] == pytest.approx(pixels.mean((0, 1)).tolist())
        assert statistics["pixels"]["std"] == pytest.approx(pixels.std((0, 1)).tolist())
        counts = dict(map(tuple, statistics["features"]["label"]["top_values"]))
        assert counts == {label: labels.count(label) for label in set(labels)}
    assert found.manifest["num_errors"] == 0


@pytest.mark.linux("forks here, in which what a test replaces stays replaced")
def test_the_same_folder_gives_the_same_bytes_on_any_number_of_workers(run, flowers, monkeypatch):
    (flowers / "iris" / "bad.png").write_text("not an image")
    monkeypatch.setattr(shards, "MAX_BATCH", 4)
    here, one, threads = (
        files_of(run(declare(), flowers, num_shards={}, beam_options=flags).folder)
        for flags in ((), ONE_THREAD, THREADS)
    )
    assert here == one == threads


def test_progress_is_logged(run, flowers, monkeypatch, caplog):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0)
    monkeypatch.setattr(shards, "MAX_BATCH", 4)
    caplog.set_level("INFO")
    count, *_ = run(declare(), flowers).counts
    lines = [line for line in caplog.messages if line.startswith("train-00000-of-00001.")]
    done = [*range(4, count, 4), count]
    expected = [f"train-00000-of-00001.tfrecord.gz: {n} of {count} images" for n in done]
    assert lines == expected


def test_an_image_stays_in_its_split_when_others_are_added(run, flowers):
    before = run(declare(), flowers).splits("image")
    for place in range(20):
        (flowers / "iris" / f"new{place}.png").write_bytes(picture((0, place, 0)))
    after = run(declare(), flowers).splits("image")
    assert all({*some} <= {*more} for some, more in zip(before, after, strict=True))


@pytest.mark.parametrize("more", ["", "group_by='[0-9]+'"], ids=["paths", "groups"])
def test_the_hashes_that_split_images_are_exact(run, flowers, monkeypatch, more):
    seen = []
    numbers = SplitRule.numbers

    def record(rule, count, *, hashes, **options):
        seen.append(hashes)
        return numbers(rule, count, hashes=hashes, **options)

    def hashed(text: str) -> int:
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")

    monkeypatch.setattr(SplitRule, "numbers", record)
    run(declare(more), flowers)
    keys = {hashed(str(place) if more else f"{name}/{place}.png")
            for name in COLOURS for place in range(20)}  # fmt: skip
    assert {*np.concatenate(seen).tolist()} == keys, "no float64 has 64 bits"


@pytest.fixture
def patients(tmp_path) -> Path:
    """A folder of two classes with pictures of 40 patients in both; their red names the patient."""
    return write_files(
        tmp_path / "patients",
        {
            f"{name}/patient_{patient}_{number}.png": picture((patient, green, number))
            for green, name in enumerate(("healthy", "ill"))
            for patient in range(40)
            for number in range(3)
        },
    )


@pytest.mark.parametrize("pattern", [r"patient_[0-9]+", r"/patient_([0-9]+)_"])
def test_images_of_a_group_are_in_one_split(run, patients, pattern, caplog):
    text = declare(f"group_by={pattern!r}")
    found = run(text, patients)
    assert found.manifest["split_rule"].startswith(f"by a hash of what {pattern!r} matches")
    reds = [{image[0] for image in images} for images in found.splits("image")]
    assert sorted(red for some in reds for red in some) == list(range(40))
    assert "do not match" not in caplog.text
    (patients / "ill" / "unknown.png").write_bytes(picture((99, 0, 0)))
    run(text, patients)
    assert "1 of 241 images do not match group_by" in caplog.text


def test_a_group_that_no_image_has_is_an_error(run, patients):
    with pytest.raises(DataError, match=r"'subject-.' matches no path of an image"):
        run(declare("group_by='subject-.'"), patients)
    with pytest.raises(ValueError, match=r"group_by: '\(' is no regular expression"):
        run(declare("group_by='('"), patients)


@pytest.mark.parametrize("names", [("train", "val", "test"), ("Train", "eval"), ("train", "test")])
def test_folders_of_splits_decide_them(tmp_path, run, names):
    pictures = {
        f"{name}/{colour}/{place}.png": picture((number, place, 0))
        for number, name in enumerate(names)
        for colour in COLOURS
        for place in range(3 if number else 30)
    }
    found = run(declare(), write_files(tmp_path / "given", pictures))
    assert "by the folders" in found.manifest["split_rule"]
    _, *others = found.splits("image")
    given = [{"val": "eval"}.get(name, name) for name in names]
    for split, images in zip(("eval", "test"), others, strict=True):
        assert {image[0] for image in images} == {given.index(split) if split in given else 0}
    assert found.rows["written"] == sum(found.counts)


def drawn(pixels: np.ndarray, kind: str = "PNG", **options) -> bytes:
    """Return the content of an image file of pixels."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def truncated() -> bytes:
    chance = np.random.default_rng(0)
    return drawn(chance.integers(0, 256, (40, 40, 3), np.uint8))[:2000]


def png(*header: int, data: bytes) -> bytes:
    """Return a PNG of a header, with zlib's form of its data."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", *header, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def test_bad_files_are_quarantined_with_their_reasons(tmp_path, run, flowers):
    (tmp_path / "secret.png").write_bytes(picture())
    iris = flowers / "iris"
    files = {"iris/truncated.png": truncated(), "iris/empty.jpg": b"", "iris/text.png": b"no image"}
    files |= {"iris/bomb.png": png(30_000, 30_000, 8, 0, data=bytes(300_010)), "top.png": picture()}
    write_files(flowers, {**files, "iris/notes.txt": b"what we saw", "iris/.DS_Store": b""})
    (iris / "link.png").symlink_to(tmp_path / "secret.png")
    (iris / "gone.png").symlink_to(tmp_path / "gone.png")
    (iris / "inside.png").symlink_to(iris / "0.png")
    (flowers / "elsewhere").symlink_to(tmp_path)
    prepared = run(declare(), flowers, max_quarantine=0.2)
    found = {entry["file"]: entry["reason"] for entry in quarantined(prepared.folder)}
    expected = {
        "iris/truncated.png": "damaged",
        "iris/empty.jpg": "empty",
        "iris/text.png": "not an image",
        "iris/bomb.png": "decompression bomb",
        "iris/notes.txt": r"not an image that can be read; convert it to one of .png",
        "iris/link.png": "a link out of the folder",
        "iris/gone.png": "a link out of the folder, or to no file",
        "top.png": "not in a class folder",
        "elsewhere": "a link out of the folder",
    }
    assert found.keys() == expected.keys()
    assert {path for path in found if expected[path] not in found[path]} == set()
    assert prepared.rows == {"read": 70, "written": 61, "quarantined": 9}
    assert prepared.manifest["labels"] == ["iris", "rose", "été"]


def test_too_many_bad_images_fail_the_run_with_their_names(tmp_path, run, flowers):
    for place in range(6):
        (flowers / "rose" / f"bad{place}.png").write_text("x")
    with pytest.raises(DataError, match=r"6 of 66 images .*rose/bad\d\.png .*not an image.*max_q"):
        run(declare(), flowers)
    assert not list(tmp_path.glob("*out-*"))


@pytest.mark.parametrize(
    ("label", "problem"),
    [
        ('Classes(values=("iris", "roses", "été"))', r"flowers/rose is not a .*mean 'roses'\?"),
        ('Binary(positive="lily")', r"no class folder 'lily'.*it has iris, rose, été"),
    ],
)
def test_a_folder_that_is_no_declared_class_is_named(run, flowers, label, problem):
    with pytest.raises(DataError, match=problem):
        run(declare(f"label={label}"), flowers)


def test_folders_that_are_no_classes_are_named(tmp_path, run, flowers):
    write_files(flowers, {"lily/readme.md": b"soon"})
    write_files(tmp_path, {"flat/a.png": picture()})
    (tmp_path / "one").mkdir()
    (flowers / "iris").rename(tmp_path / "one/iris")
    for folder, problem in (
        (flowers, r"flowers/lily has no images \(lily/readme\.md is not an"),
        (tmp_path / "flat", "flat has no class folders"),
        (tmp_path / "nowhere", "nowhere matches no folder"),
        (tmp_path / "one", "only one class folder, 'iris'"),
    ):
        with pytest.raises(DataError, match=problem):
            run(declare(), folder)


def test_settings_of_tables_are_refused(run, flowers):
    with pytest.raises(ConfigError, match=r"split_key .*only tables"):
        run(declare(), flowers, split_key=("a",))


@pytest.mark.parametrize("max_examples", [20, 3], ids=["some", "fewer than classes"])
def test_a_sample_has_images_of_each_split(run, flowers, max_examples):
    counts = run(declare(), flowers, max_examples=max_examples).counts
    assert (sum(counts), 0 in counts) == (max_examples, False)


def test_the_fingerprint_changes_with_an_image(tmp_path, run, flowers):
    run(declare(), flowers)
    options = PrepareOptions(files=(str(flowers),))
    before, again = (read_input(str(tmp_path / "own"), options=options) for _ in range(2))
    (flowers / "iris" / "0.png").write_bytes(picture((9, 9, 9)))
    after = read_input(str(tmp_path / "own"), options=options)
    assert before.fingerprint == again.fingerprint != after.fingerprint


GREY = (100, 100, 100)


def full(value: float, kind: type = np.uint16, form: str = "PNG") -> bytes:
    """Return a grey picture of 3 by 3 equal values of more than 8 bits, or of floats."""
    return drawn(np.full((3, 3), value, kind), form)


def colour_picture(*values: int) -> bytes:
    """Return a PNG of one pixel with colours of 16 bits, which Pillow does not write."""
    return png(1, 1, 16, 2, data=b"\0" + struct.pack(">HHH", *values))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("content", "expected", "white"),
    [
        (picture(GREY, mode="L"), [100, 100, 100], None),
        (picture((255, 0, 0)), [76], None),
        (picture((255, 0, 0), mode="P"), [255, 0, 0], None),
        (picture((10, 20, 30), mode="CMYK", kind="TIFF"), [10, 20, 30], None),
        (picture((9, 9, 9), mode="1"), [0], None),
        (picture(GREY, kind="BMP"), [100, 100, 100], None),
        (picture(GREY, kind="WEBP", lossless=True), [100, 100, 100], None),
        (picture(GREY, mode="RGBA"), [100, 100, 100, 255], None),
        (drawn(np.full((9, 9, 4), (200, 0, 0, 0), np.uint8)), [255, 255, 255], None),
        # More than 8 bits are shares of the declared white.
        (full(65_535 // 2), [127], None),
        (full(4095), [255], 4095),
        (full(1000, form="TIFF"), [62], 4095),
        (full(1000, form="TIFF"), [3], 65_535),
        (full(200_003, np.int32, "TIFF"), [255], 200_003),
        (full(0.1, np.float32, "TIFF"), [255], 0.1),
        (full(0), [0], None),
        # Colours of 16 bits are read unless they are dark.
        (colour_picture(40_000, 0, 0), [156, 0, 0], None),
        (colour_picture(4000, 0, 0), [15, 0, 0], 65_535),
    ],
)
def test_images_of_any_mode_are_converted(content, expected, white):
    form = Decoding(size=(4, 4), channels=len(expected), white=white)
    found = decode_image(content, form)
    assert found.shape == (4, 4, len(expected))
    assert found[0, 0].tolist() == expected


@pytest.mark.fast
@pytest.mark.parametrize(
    ("content", "white", "problem"),
    [
        (full(4000), None, "write white=4095, or white=65535"),
        (full(9000), 4095, "0 to white=4095"),
        (full(0.5, np.float32, "TIFF"), None, "write white=1, or"),
        (full(-0.5, np.float32, "TIFF"), 1, "are -0.5 to -0.5, but"),
        (full(np.nan, np.float32, "TIFF"), 1, "are nan to nan, but"),
        (colour_picture(4000, 10, 10), None, "the upper 8 are read, which are 15 at most"),
        (colour_picture(40_000, 10, 10), 4095, "save it with 8 bits"),
    ],
)
def test_pictures_whose_white_is_unknown_are_refused(content, white, problem):
    with pytest.raises(ValueError, match=problem):
        decode_image(content, Decoding(size=(3, 3), channels=1, white=white))


@pytest.mark.fast
def test_the_exif_orientation_turns_the_image():
    pixels = np.zeros((20, 40, 3), np.uint8)
    pixels[:, 20:] = 255  # white at the right
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise: white at the bottom
    found = decode_image(drawn(pixels, exif=exif), Decoding(size=(40, 20)))
    assert found[0, 10].tolist() == [0, 0, 0]
    assert found[39, 10].tolist() == [255, 255, 255]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("fit", "corner", "top"), [("stretch", 0, 0), ("crop", 255, 255), ("pad", 0, 0)]
)
def test_the_proportions_are_kept_as_declared(fit, corner, top):
    pixels = np.zeros((10, 30, 3), np.uint8)
    pixels[:, 10:20] = 255
    found = decode_image(drawn(pixels), Decoding(size=(10, 10), fit=fit))
    assert (found[5, 0, 0], found[0, 0, 0], found[5, 5, 0]) == (corner, top, 255)


@pytest.mark.fast
def test_shrinking_is_antialiased():
    pixels = np.zeros((64, 64), np.uint8)
    pixels[::2] = 255
    found = decode_image(drawn(pixels), Decoding(size=(8, 8), channels=1))
    assert 120 < found.mean() < 136
    assert found.std() < 5


def test_an_archive_gives_the_examples_of_its_folder(tmp_path, run, flowers):
    archive = Path(shutil.make_archive(str(tmp_path / "all"), "zip", tmp_path, "flowers"))
    found = run(declare(), archive)
    assert found.shards == run(declare(), flowers).shards
    assert found.manifest["labels"] == sorted(COLOURS)
    shutil.copy(archive, tmp_path / "more.zip")
    with pytest.raises(DataError, match=r"matches 2 archives; give one"):
        run(declare(), tmp_path / "*.zip")
