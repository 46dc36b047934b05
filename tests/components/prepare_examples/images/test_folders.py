"""Class folders of images of any size and kind."""

import io
import json
import multiprocessing
import os
import shutil
import signal
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from components.prepare_examples.errors import DataError
from components.prepare_examples.fingerprint import read_input
from components.prepare_examples.images import folders, shards
from components.prepare_examples.prepare import prepare
from components.prepare_examples.raw_data import progress
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.split_rule import SplitRule
from trainer import Json
from trainer.errors import ConfigError
from trainer.workloads.declarations.decoding import Decoding
from trainer.workloads.encoding.image_files import decode_image

SIZE = (6, 8)
THREADS = ("--direct_num_workers=2", "--direct_running_mode=multi_threading")
ONE_THREAD = ("--direct_num_workers=1",)
COLOURS = {"rose": (200, 10, 10), "iris": (10, 10, 200), "été": (10, 200, 10)}


def fingerprint(*workload, **more) -> str:
    return read_input(*workload, **more).fingerprint


def declare(folder: Path, more: str = "") -> str:
    """Write a workload file; return its reference."""
    folder.mkdir(exist_ok=True)
    (folder / "workload.py").write_text(
        f"from trainer.workloads import Binary, Classes, ImageFolder\n"
        f"workload = ImageFolder(size={SIZE}, {more})\n"
    )
    return str(folder)


def picture(colour=(1, 2, 3), size=(12, 9), kind: str = "PNG", mode: str = "RGB", **options):
    """Return the content of an image file."""
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).convert(mode).save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.fixture
def flowers(tmp_path) -> Path:
    """A folder of three classes with 20 images of several sizes each."""
    for number, (name, (red, green, blue)) in enumerate(COLOURS.items()):
        folder = tmp_path / "flowers" / name
        folder.mkdir(parents=True)
        for place in range(20):
            colour = (red + place, green, blue + number)
            size = (5 + place, 3 + place % 4)
            (folder / f"{place}.png").write_bytes(picture(colour, size))
    return tmp_path / "flowers"


@pytest.fixture
def run(tmp_path):
    def do(folder: Path, more: str = "", **options) -> Json:
        chosen = PrepareOptions(files=(str(folder),), **options)
        reference = declare(tmp_path / "project", more)
        return prepare(reference, output_dir=tmp_path / "out", data_dir=tmp_path, options=chosen)

    return do


def examples_of(folder: Path, split: str = "*") -> list[tuple[bytes, int]]:
    import tensorflow as tf

    found = []
    for path in sorted(folder.glob(f"{split}-*.tfrecord.gz")):
        for record in tf.data.TFRecordDataset([str(path)], "GZIP").as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            (image,), (label,) = (
                features["image"].bytes_list.value,
                features["label"].int64_list.value,
            )
            found.append((image, label))
    return found


def quarantined(folder: Path) -> dict[str, str]:
    lines = (folder / "quarantine-00000-of-00001.jsonl").read_text().splitlines()
    return {entry["file"]: entry["reason"] for entry in map(json.loads, lines)}


def test_each_image_is_an_example_of_the_declared_size(tmp_path, run, flowers):
    manifest = run(flowers)
    assert manifest["labels"] == ["iris", "rose", "été"]
    assert manifest["rows"] == {"read": 60, "written": 60, "filtered": 0, "quarantined": 0}
    assert manifest["image"] == {"size": list(SIZE), "channels": 3, "fit": "stretch", "white": None}
    found = examples_of(tmp_path / "out")
    assert len(found) == 60
    colours = [COLOURS[name] for name in manifest["labels"]]
    for image, label in found:
        pixels = np.frombuffer(image, np.uint8).reshape(*SIZE, 3)
        assert (pixels == pixels[0, 0]).all()
        red, green, blue = colours[label]
        assert 0 <= pixels[0, 0, 0] - red < 20
        assert pixels[0, 0, 1] == green
        assert 0 <= pixels[0, 0, 2] - blue < 3


def test_statistics_schema_and_report_describe_the_images(tmp_path, run, flowers):
    manifest = run(flowers)
    statistics = json.loads((tmp_path / "out" / "statistics.json").read_text())["splits"]
    for split, found in statistics.items():
        images = examples_of(tmp_path / "out", split)
        assert found["num_examples"] == len(images) == manifest["splits"][split]["num_examples"]
        pixels = np.stack([np.frombuffer(image, np.uint8).reshape(-1, 3) for image, _ in images])
        assert found["pixels"]["mean"] == pytest.approx(pixels.mean((0, 1)).tolist())
        assert found["pixels"]["std"] == pytest.approx(pixels.std((0, 1)).tolist())
        counts = dict(map(tuple, found["features"]["label"]["top_values"]))
        labels = [label for _, label in images]
        assert counts == {label: labels.count(label) for label in set(labels)}
    assert 'name: "label"' in (tmp_path / "out" / "schema.pbtxt").read_text()
    assert "label" in (tmp_path / "out" / "report.html").read_text()
    assert manifest["num_errors"] == 0


@pytest.mark.linux("forks here, in which what a test replaces stays replaced")
def test_the_same_folder_gives_the_same_bytes_on_any_number_of_workers(
    tmp_path, run, flowers, monkeypatch
):
    (flowers / "iris" / "bad.png").write_text("not an image")
    monkeypatch.setattr(shards, "MAX_BATCH", 4)
    run(flowers)
    one = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    for flags in (ONE_THREAD, THREADS):
        run(flowers, beam_options=flags)
        assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == one


def test_progress_is_logged(run, flowers, monkeypatch, caplog):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0)
    monkeypatch.setattr(shards, "MAX_BATCH", 4)
    caplog.set_level("INFO")
    manifest = run(flowers, num_shards={"train": 1}, beam_options=ONE_THREAD)
    count = manifest["splits"]["train"]["num_examples"]
    lines = [line for line in caplog.messages if line.startswith("train-00000-of-00001.")]
    done = [*range(4, count, 4), count]
    expected = [f"train-00000-of-00001.tfrecord.gz: {n} of {count} images" for n in done]
    assert lines == expected


def kill_process(*_, **__) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.linux("forks here, in which what a test replaces stays replaced")
def test_a_killed_process_is_an_error(tmp_path, run, flowers, monkeypatch):
    monkeypatch.setattr(shards, "decode_files", kill_process)
    with pytest.raises(DataError, match=r"a process .* was killed.*--direct-workers"):
        run(flowers, beam_options=THREADS)
    assert not (tmp_path / "out").exists()
    assert multiprocessing.active_children() == []


def test_an_image_stays_in_its_split_when_others_are_added(tmp_path, run, flowers):
    run(flowers)
    before = {split: set(examples_of(tmp_path / "out", split)) for split in ("train", "test")}
    for place in range(20):
        (flowers / "iris" / f"new{place}.png").write_bytes(picture((0, place, 0)))
    run(flowers)
    for split, images in before.items():
        assert images <= set(examples_of(tmp_path / "out", split))


@pytest.mark.parametrize("more", ["", "group_by='[0-9]+'"], ids=["paths", "groups"])
def test_the_hashes_that_split_images_are_exact(run, flowers, monkeypatch, more):
    seen = []
    numbers = SplitRule.numbers

    def record(rule, count, *, hashes, **options):
        seen.append(hashes)
        return numbers(rule, count, hashes=hashes, **options)

    monkeypatch.setattr(SplitRule, "numbers", record)
    run(flowers, more)
    keys = {folders._hash(f"{name}/{place}.png") for name in COLOURS for place in range(20)}
    if more:
        keys = {folders._hash(str(place)) for place in range(20)}
    assert {*np.concatenate(seen).tolist()} == keys, "no float64 has 64 bits"


@pytest.fixture
def patients(tmp_path) -> Path:
    """A folder of two classes with pictures of 40 patients in both; their red names the patient."""
    for green, name in enumerate(("healthy", "ill")):
        (tmp_path / "patients" / name).mkdir(parents=True)
        for patient in range(40):
            for number in range(3):
                path = tmp_path / "patients" / name / f"patient_{patient}_{number}.png"
                path.write_bytes(picture((patient, green, number)))
    return tmp_path / "patients"


@pytest.mark.parametrize("pattern", [r"patient_[0-9]+", r"/patient_([0-9]+)_"])
def test_images_of_a_group_are_in_one_split(tmp_path, run, patients, pattern, caplog):
    manifest = run(patients, f"group_by={pattern!r}")
    assert manifest["split_rule"].startswith(f"by a hash of what {pattern!r} matches")
    reds = {
        split: {image[0] for image, _ in examples_of(tmp_path / "out", split)}
        for split in ("train", "eval", "test")
    }
    assert sorted(red for found in reds.values() for red in found) == list(range(40))
    assert "do not match" not in caplog.text
    (patients / "ill" / "unknown.png").write_bytes(picture((99, 0, 0)))
    run(patients, f"group_by={pattern!r}")
    assert "1 of 241 images do not match group_by" in caplog.text


def test_a_group_that_no_image_has_is_an_error(run, patients):
    with pytest.raises(DataError, match=r"'subject-.' matches no path of an image"):
        run(patients, "group_by='subject-.'")
    with pytest.raises(ValueError, match=r"group_by: '\(' is no regular expression"):
        run(patients, "group_by='('")


@pytest.mark.parametrize("names", [("train", "val", "test"), ("Train", "eval"), ("train", "test")])
def test_folders_of_splits_decide_them(tmp_path, run, flowers, names):
    root = tmp_path / "given"
    for number, name in enumerate(names):
        for colour in COLOURS:
            folder = root / name / colour
            folder.mkdir(parents=True)
            for place in range(30 if number == 0 else 3):
                (folder / f"{place}.png").write_bytes(picture((number, place, 0)))
    manifest = run(root)
    assert "by the folders" in manifest["split_rule"]
    for split in ("eval", "test"):
        reds = {image[0] for image, _ in examples_of(tmp_path / "out", split)}
        given = {"val": "eval"}
        places = [n for n, name in enumerate(names) if given.get(name, name) == split]
        assert reds == {places[0] if places else 0}
    assert manifest["rows"]["written"] == sum(
        split["num_examples"] for split in manifest["splits"].values()
    )


def truncated() -> bytes:
    chance = np.random.default_rng(0)
    buffer = io.BytesIO()
    Image.fromarray(chance.integers(0, 256, (40, 40, 3), np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()[:2000]


def bomb() -> bytes:
    """Return a PNG of 30,000 by 30,000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        sum_ = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", sum_)

    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 0, 0, 0, 0)
    data = zlib.compress(bytes(30_001) * 10)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data)


def test_bad_files_are_quarantined_with_their_reasons(tmp_path, run, flowers):
    (tmp_path / "secret.png").write_bytes(picture())
    iris = flowers / "iris"
    (iris / "truncated.png").write_bytes(truncated())
    (iris / "empty.jpg").write_bytes(b"")
    (iris / "text.png").write_text("not an image")
    (iris / "bomb.png").write_bytes(bomb())
    (iris / "notes.txt").write_text("what we saw")
    (iris / ".DS_Store").write_text("")
    (iris / "link.png").symlink_to(tmp_path / "secret.png")
    (iris / "gone.png").symlink_to(tmp_path / "gone.png")
    (iris / "inside.png").symlink_to(iris / "0.png")
    (flowers / "top.png").write_bytes(picture())
    (flowers / "elsewhere").symlink_to(tmp_path)
    manifest = run(flowers, max_quarantine=0.2)
    found = quarantined(tmp_path / "out")
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
    rows = {"read": 70, "written": 61, "filtered": 0, "quarantined": 9}
    assert manifest["rows"] == rows
    assert manifest["labels"] == ["iris", "rose", "été"]


def test_too_many_bad_images_fail_the_run_with_their_names(tmp_path, run, flowers):
    for place in range(6):
        (flowers / "rose" / f"bad{place}.png").write_text("x")
    with pytest.raises(DataError, match=r"6 of 66 images .*rose/bad\d\.png .*not an image.*max_q"):
        run(flowers)
    assert not (tmp_path / "out").exists()


def test_an_empty_class_folder_is_named(run, flowers):
    (flowers / "lily").mkdir()
    (flowers / "lily" / "readme.md").write_text("soon")
    with pytest.raises(DataError, match=r"flowers/lily has no images \(lily/readme\.md is not an"):
        run(flowers)


def test_a_folder_without_classes_is_named(tmp_path, run):
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat" / "a.png").write_bytes(picture())
    with pytest.raises(DataError, match=r"flat has no class folders"):
        run(tmp_path / "flat")
    with pytest.raises(DataError, match=r"nowhere matches no folder"):
        run(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ('Classes(values=("été", "rose", "iris"))', (["été", "rose", "iris"], ["été", "rose"])),
        ('Binary(positive="rose")', (["not rose", "rose"], ["iris", "rose"])),
    ],
)
def test_declared_classes_give_the_numbers(tmp_path, run, flowers, label, expected):
    labels, colours = expected
    manifest = run(flowers, f"label={label}")
    assert manifest["labels"] == labels
    numbers = {}
    for image, number in examples_of(tmp_path / "out"):
        brightest = np.frombuffer(image[:3], np.uint8).argmax()
        numbers[["rose", "été", "iris"][brightest]] = number
    assert [numbers[name] for name in colours] == [0, 1]


@pytest.mark.parametrize(
    ("label", "problem"),
    [
        ('Classes(values=("iris", "roses", "été"))', r"flowers/rose is not a .*mean 'roses'\?"),
        ('Binary(positive="lily")', r"no class folder 'lily'.*it has iris, rose, été"),
    ],
)
def test_a_folder_that_is_no_declared_class_is_named(run, flowers, label, problem):
    with pytest.raises(DataError, match=problem):
        run(flowers, f"label={label}")


def test_a_single_class_is_an_error(tmp_path, run, flowers):
    (tmp_path / "one").mkdir()
    (flowers / "iris").rename(tmp_path / "one" / "iris")
    with pytest.raises(DataError, match=r"only one class folder, 'iris'"):
        run(tmp_path / "one")


def test_settings_of_tables_are_refused(run, flowers):
    with pytest.raises(ConfigError, match=r"split_key .*only tables"):
        run(flowers, split_key=("a",))


def test_a_sample_has_images_of_each_split(run, flowers):
    manifest = run(flowers, max_examples=20)
    assert sum(split["num_examples"] for split in manifest["splits"].values()) == 20


def test_the_fingerprint_changes_with_an_image(tmp_path, flowers):
    options = PrepareOptions(files=(str(flowers),))
    reference = declare(tmp_path / "p")
    before = fingerprint(reference, data_dir=tmp_path, options=options)
    assert fingerprint(reference, data_dir=tmp_path, options=options) == before
    (flowers / "iris" / "0.png").write_bytes(picture((9, 9, 9)))
    assert fingerprint(reference, data_dir=tmp_path, options=options) != before


GREY = (100, 100, 100)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("content", "channels", "expected"),
    [
        (picture(GREY, mode="L"), 3, [100, 100, 100]),
        (picture((255, 0, 0)), 1, [76]),
        (picture((255, 0, 0), mode="P"), 3, [255, 0, 0]),
        (picture((10, 20, 30), mode="CMYK", kind="TIFF"), 3, [10, 20, 30]),
        (picture((9, 9, 9), mode="1"), 1, [0]),
        (picture(GREY, kind="BMP"), 3, [100, 100, 100]),
        (picture(GREY, kind="WEBP", lossless=True), 3, [100, 100, 100]),
        (picture(GREY, mode="RGBA"), 4, [100, 100, 100, 255]),
    ],
    ids=["grey", "to grey", "palette", "CMYK", "bits", "bmp", "webp", "alpha"],
)
def test_images_of_any_mode_are_converted(content, channels, expected):
    found = decode_image(content, Decoding(size=(4, 4), channels=channels))
    assert found.shape == (4, 4, channels)
    assert found[0, 0].tolist() == expected


@pytest.mark.fast
def test_transparent_pixels_become_white():
    buffer = io.BytesIO()
    Image.new("RGBA", (3, 3), (200, 0, 0, 0)).save(buffer, "PNG")
    assert decode_image(buffer.getvalue(), Decoding(size=(3, 3)))[0, 0].tolist() == [255, 255, 255]


@pytest.mark.fast
def test_sixteen_bits_are_scaled_to_eight():
    buffer = io.BytesIO()
    Image.fromarray(np.full((3, 3), 65_535 // 2, np.uint16)).save(buffer, "PNG")
    form = Decoding(size=(3, 3), channels=1)
    assert decode_image(buffer.getvalue(), form)[0, 0].tolist() == [127]


def deep_picture(values: np.ndarray, kind: str = "PNG") -> bytes:
    """Return a grey picture of more than 8 bits, or of floats."""
    buffer = io.BytesIO()
    Image.fromarray(values).save(buffer, kind)
    return buffer.getvalue()


def colour_picture(*values: int) -> bytes:
    """Return a PNG of one pixel with colours of 16 bits, which Pillow does not write."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    header = struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0" + struct.pack(">HHH", *values))
    chunks = [chunk(b"IHDR", header), chunk(b"IDAT", pixels), chunk(b"IEND", b"")]
    return b"".join([b"\x89PNG\r\n\x1a\n", *chunks])


@pytest.mark.fast
@pytest.mark.parametrize(
    ("values", "kind", "white", "expected"),
    [
        (np.full((3, 3), 4095, np.uint16), "PNG", 4095, 255),
        (np.full((3, 3), 1000, np.uint16), "TIFF", 4095, 62),
        (np.full((3, 3), 1000, np.uint16), "TIFF", 65_535, 3),
        (np.full((3, 3), 200_000, np.int32), "TIFF", 400_000, 127),
        (np.full((3, 3), 0.5, np.float32), "TIFF", 1, 127),
        (np.full((3, 3), 200_003, np.int32), "TIFF", 200_003, 255),
        (np.full((3, 3), 0.1, np.float32), "TIFF", 0.1, 255),
        (np.zeros((3, 3), np.uint16), "PNG", None, 0),
    ],
)
def test_deep_values_are_shares_of_the_declared_white(values, kind, white, expected):
    form = Decoding(size=(3, 3), channels=1, white=white)
    assert decode_image(deep_picture(values, kind), form)[0, 0].tolist() == [expected]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("content", "white", "problem"),
    [
        (deep_picture(np.full((3, 3), 4000, np.uint16)), None, "write white=4095, or white=65535"),
        (deep_picture(np.full((3, 3), 9000, np.uint16)), 4095, "0 to white=4095"),
        (deep_picture(np.full((3, 3), 0.5, np.float32), "TIFF"), None, "write white=1, or"),
        (deep_picture(np.full((3, 3), -0.5, np.float32), "TIFF"), 1, "are -0.5 to -0.5, but"),
        (deep_picture(np.full((3, 3), np.nan, np.float32), "TIFF"), 1, "are nan to nan, but"),
        (colour_picture(4000, 10, 10), None, "the upper 8 are read, which are 15 at most"),
        (colour_picture(40_000, 10, 10), 4095, "save it with 8 bits"),
    ],
)
def test_pictures_whose_white_is_unknown_are_refused(content, white, problem):
    with pytest.raises(ValueError, match=problem):
        decode_image(content, Decoding(size=(3, 3), channels=1, white=white))


def test_a_folder_of_pictures_whose_white_is_unknown_is_refused_with_the_reason(tmp_path, run):
    for name in ("cells", "none"):
        (tmp_path / "slides" / name).mkdir(parents=True)
        for at in range(30):
            content = deep_picture(np.full((3, 3), 4000 - at, np.uint16))
            (tmp_path / "slides" / name / f"{at}.png").write_bytes(content)
    with pytest.raises(DataError, match=r"60 of 60 images \(100.0%\) are bad.*write white=4095"):
        run(tmp_path / "slides")


@pytest.mark.fast
@pytest.mark.parametrize(("values", "white"), [((40_000, 0, 0), None), ((4000, 0, 0), 65_535)])
def test_colours_of_sixteen_bits_are_read_unless_they_are_dark(values, white):
    pixels = decode_image(colour_picture(*values), Decoding(size=(1, 1), white=white))
    assert pixels[0, 0].tolist() == [value >> 8 for value in values]


@pytest.mark.fast
def test_the_exif_orientation_turns_the_image():
    pixels = np.zeros((20, 40, 3), np.uint8)
    pixels[:, 20:] = 255  # white at the right
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise: white at the bottom
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", exif=exif)
    found = decode_image(buffer.getvalue(), Decoding(size=(40, 20)))
    assert found[0, 10].tolist() == [0, 0, 0]
    assert found[39, 10].tolist() == [255, 255, 255]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("fit", "corner", "top"), [("stretch", 0, 0), ("crop", 255, 255), ("pad", 0, 0)]
)
def test_the_proportions_are_kept_as_declared(fit, corner, top):
    pixels = np.zeros((10, 30, 3), np.uint8)
    pixels[:, 10:20] = 255
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    found = decode_image(buffer.getvalue(), Decoding(size=(10, 10), fit=fit))
    assert found[5, 0, 0] == corner
    assert found[0, 0, 0] == top
    assert found[5, 5, 0] == 255


@pytest.mark.fast
def test_shrinking_is_antialiased():
    pixels = np.zeros((64, 64), np.uint8)
    pixels[::2] = 255
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    found = decode_image(buffer.getvalue(), Decoding(size=(8, 8), channels=1))
    assert 120 < found.mean() < 136
    assert found.std() < 5


def test_an_archive_gives_the_examples_of_its_folder(tmp_path, run, flowers):
    expected = {split: one["num_examples"] for split, one in run(flowers)["splits"].items()}
    archive = Path(shutil.make_archive(str(tmp_path / "all"), "zip", tmp_path, "flowers"))
    manifest = run(archive)
    assert {split: one["num_examples"] for split, one in manifest["splits"].items()} == expected
    assert manifest["labels"] == sorted(COLOURS)
    shutil.copy(archive, tmp_path / "more.zip")
    with pytest.raises(DataError, match=r"matches 2 archives; give one"):
        run(tmp_path / "*.zip")
