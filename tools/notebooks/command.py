"""Programs that notebooks and their training code start: `gcloud`, `gsutil`, `pip`, `docker`, ….

Objects of buckets are files, so their commands are those of files. Everything else does nothing,
and is written to the file that `NOTEBOOK_SKIPPED` names.
"""

import glob
import os
import shutil
import sys
from pathlib import Path

BUCKETS = os.environ["VERTEX_LOCAL_BUCKETS"]


def main(name: str, words: list[str]) -> None:
    """Carry out a command on objects, or none."""
    arguments = [word for word in words if not word.startswith("-")]
    if name == "gsutil":
        arguments.insert(0, "storage")
    match arguments:
        case ["storage", "cp", *sources, target]:
            copy([path for source in sources for path in paths(source)], path_of(target))
        case ["storage", "cat", *sources]:
            for path in (path for source in sources for path in paths(source)):
                print(path.read_text(), end="")
        case ["storage", "ls", *sources]:
            for folder in (path for source in sources for path in paths(source)):
                print(*(f"gs://{path.relative_to(BUCKETS)}" for path in folder.iterdir()), sep="\n")
        case ["storage", "buckets", "create", *names, _] | ["storage", "mb", *names]:
            buckets = [word for word in (*names, arguments[-1]) if word.startswith("gs://")]
            path_of(buckets[-1]).mkdir(parents=True, exist_ok=True)
        case ["auth", "print-access-token"]:
            print("token")
        case ["compute", "forwarding-rules", "describe", *_]:
            print("10.128.0.2")
        case _:
            with open(os.environ["NOTEBOOK_SKIPPED"], "a") as file:
                print(name, *words, file=file)


def copy(sources: list[Path], target: Path) -> None:
    """Copy files and folders, as `cp --recursive` does."""
    if not sources:
        sys.exit("no such object")
    if len(sources) > 1:
        target.mkdir(parents=True, exist_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    for source in sources:
        path = target / source.name if target.is_dir() else target
        shutil.copytree(source, path) if source.is_dir() else shutil.copy(source, path)


def paths(text: str) -> list[Path]:
    """Return the files and folders of a gs:// pattern or a path."""
    return [Path(path) for path in sorted(glob.glob(str(path_of(text))))]


def path_of(text: str) -> Path:
    """Return the path of a gs:// URI, and of a path itself."""
    return Path(BUCKETS, text.removeprefix("gs://")) if text.startswith("gs://") else Path(text)


if __name__ == "__main__":
    main(Path(sys.argv[0]).name, sys.argv[1:])
