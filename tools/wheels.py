"""Wheels of both distributions, the same bytes from the same commit on any machine.

`python -m tools.wheels` builds them of what git lists, in dist/. `--url` is the address of the
repository that their pages on an index link to; without one they link to nothing.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SERVICE = "vertex_local"
# Links of a README to files of the repository: an index has none of them.
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)]+)\)")


def main() -> None:
    """Build the wheels; print their names and digests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="", help="of the repository, https://HOST/OWNER/NAME")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", metavar="FOLDER")
    arguments = parser.parse_args()
    for wheel in build(arguments.dist, url=arguments.url.rstrip("/")):
        print(hashlib.sha256(wheel.read_bytes()).hexdigest(), wheel)


def build(dist: Path, *, url: str = "", work: Path = ROOT / "build" / "wheels") -> list[Path]:
    """Build both wheels in `dist` from copies in `work`; return their paths.

    A wheel has the modes and times of its files: of the copies all modes are 644 or 755, and
    SOURCE_DATE_EPOCH is the time of the last commit.
    """
    shutil.rmtree(work, ignore_errors=True)
    for name in _output("git", "ls-files", "-z").rstrip("\0").split("\0"):
        target = work / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
        target.chmod(0o755 if os.access(ROOT / name, os.X_OK) else 0o644)
    shutil.copy(work / "LICENSE", work / SERVICE)
    for folder in ("", SERVICE):
        readme = work / folder / "README.md"
        readme.write_text(with_links(readme.read_text(encoding="utf-8"), url=url, folder=folder))
    if url:
        with (work / SERVICE / "pyproject.toml").open("a") as settings:
            settings.write(f'\n[project.urls]\nRepository = "{url}"\n')
        (work / "setup.cfg").write_text(f"[metadata]\nproject_urls =\n    Repository = {url}\n")
    built = work.with_name(f"{work.name}.built")
    shutil.rmtree(built, ignore_errors=True)
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            *options,
            "--wheel-dir",
            built,
            work,
            work / SERVICE,
        ],
        env={
            **os.environ,
            "SOURCE_DATE_EPOCH": _output("git", "log", "-1", "--format=%ct").strip(),
        },
        umask=0o022,
        check=True,
    )
    dist.mkdir(parents=True, exist_ok=True)
    return [Path(shutil.copy2(wheel, dist)) for wheel in sorted(built.glob("*.whl"))]


def with_links(text: str, *, url: str, folder: str) -> str:
    """Return a README whose links to files are addresses below `url`, or words without one."""

    def address(match: re.Match[str]) -> str:
        is_picture, words, path = match.groups()
        if not url:
            return "" if is_picture else words
        kind = "raw" if is_picture else "blob"
        place = os.path.normpath(os.path.join(folder, path))
        return f"{is_picture}[{words}]({url}/{kind}/main/{place})"

    return LINK.sub(address, text)


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
