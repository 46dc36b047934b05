"""workload.py for class folders of images."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from components.prepare_examples.errors import DataError
from components.prepare_examples.images.folders import ClassFolders, read_folder
from components.prepare_examples.split_rule import SplitRule
from components.prepare_examples.tfrecords.shards import DEFAULT_RATIOS
from components.shared.text.value_text import first_of
from pipelines.projects.literals import SourceText, call, fill, literal
from pipelines.projects.scripts.record import record
from pipelines.projects.starter.folder import NewFolder, workload_source
from pipelines.projects.starter.labels import BINARY, CLASSES
from pipelines.projects.starter.pictures import guess_shape
from trainer.workloads import Split

MOST_SHOWN = 8  # classes
LABELS = "; or give the file with the labels of a flat folder: --table labels.csv --label COLUMN"
AS_IN_SCRIPT = SourceText("    augment_with=None,  # the default shifts images a little\n")
SIZE = """\
    size={size},  # {seen}
    channels={channels},
"""


def start_images(folder: str, *, script: Path | None = None) -> NewFolder:
    """Return the folder's content for class folders of images.

    Raises:
        DataError: there are no class folders, only one, or one is empty.
    """
    try:
        rule = SplitRule(split=Split(), ratios=DEFAULT_RATIOS, hashed="the file's path")
        images = read_folder(Path(folder), rule=rule)
    except DataError as error:
        raise DataError(f"{error}{LABELS}") from error
    if len(images.classes) < 2:  # noqa: PLR2004
        raise DataError(
            f"{folder} has only one class folder, {images.classes[0]!r}; add the others"
        )
    files = [file for some in images.files.values() for file in some]
    files.sort(key=lambda file: file.place)
    counts = Counter(file.label for file in files)
    shape = guess_shape([images.root / file.path for file in files])
    size, channels = shape.form.size, shape.form.channels
    per_class = {name: counts[at] for at, name in enumerate(images.classes)}
    told = {"images": str(Path(folder).resolve()), "classes": per_class}
    code = record(script, told) if script else None
    if code:
        size, channels = (code.size[0], code.size[1]), code.channels
    shown = [f"{name} {counts[at]:,}" for at, name in enumerate(images.classes)]
    label = code.label if code else {}
    pair = label["values"] if label.get("kind") == "binary" else ()
    decoded = fill(SIZE, size=literal(tuple(size)), seen=shape.seen, channels=channels)
    more = [AS_IN_SCRIPT] * bool(code)
    if pair:
        binary = call(BINARY, "label", positive=pair[1], names=tuple(pair))
        more.append(fill("    label={},\n", binary))
    workload = workload_source(
        "ImageFolder",
        title=f"{len(files):,} images: {first_of(shown, MOST_SHOWN)}.",
        seen="",
        kinds=[BINARY] * bool(pair),
        arguments=[decoded, *more],
        script=code,
    )
    return NewFolder(
        workload=workload,
        data=(folder,),
        num_examples=len(files),
        kind=BINARY if pair else CLASSES,
        said=tuple(_on_folders(images)),
        script=code,
    )


def _on_folders(images: ClassFolders) -> Iterator[str]:
    if folders := images.rule.files:
        splits = "; ".join(f"{Path(folder).name}: {split}" for folder, split in folders.items())
        yield f"split by the folders ({splits})"
    depth = 3 if folders else 2  # of a picture in its class folder
    paths = (file.path for some in images.files.values() for file in some)
    if inner := min((path for path in paths if path.count("/") >= depth), default=""):
        yield (
            f"classes are {', '.join(images.classes)}; folders in them, as of {inner}, are none. If"
            " these are splits, call them train, eval and test"
        )
