"""Small packages for a real pip that has no network."""

import base64
import hashlib
import io
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

# A build announces its start and takes until GO exists.
SLOW_BACKEND = """
import pathlib, time, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    here = pathlib.Path({place!r})
    (here / "begun").touch()
    while not (here / "go").exists():
        time.sleep(0.05)
    name = "slow_fares-1.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as wheel:
        wheel.writestr("slow_fares.py", "FARE = 3")
        info = "slow_fares-1.0.dist-info"
        head = "Metadata-Version: 2.1\\nName: slow-fares\\nVersion: 1.0"
        wheel.writestr(f"{{info}}/METADATA", head)
        wheel.writestr(f"{{info}}/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any")
        wheel.writestr(f"{{info}}/RECORD", "slow_fares.py,,")
    return name
"""


def write_wheel(folder: Path, name: str, version: str, files: dict[str, bytes | str]) -> Path:
    """Write a wheel that any pip installs."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    tags = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    every = {**files, f"{info}/METADATA": head, f"{info}/WHEEL": tags}
    raw = {path: text.encode() if isinstance(text, str) else text for path, text in every.items()}
    record = "".join(f"{path},sha256={_digest(text)},{len(text)}\n" for path, text in raw.items())
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for place, text in raw.items():
            wheel.writestr(place, text)
        wheel.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return path


def write_kfp_wheel(folder: Path, version: str) -> Path:
    """Write the part of the installed kfp that runs in steps as a wheel of another version.

    All of it takes a second to install: pip compiles every module.
    """
    files: dict[str, bytes | str] = {}
    for file in metadata.files("kfp"):
        path = Path(file.locate())
        is_in_steps = file.parts[:2] in (("kfp", "__init__.py"), ("kfp", "dsl"))
        if is_in_steps and path.suffix == ".py" and not path.name.endswith("_test.py"):
            files[str(file)] = path.read_bytes()
    files["kfp/version.py"] = f"__version__ = {version!r}\n"
    return write_wheel(folder, "kfp", version, files)


def write_slow_sdist(folder: Path, *, version: str, place: Path) -> Path:
    """Write slow-fares, whose build takes until PLACE/go exists."""
    project = (
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        f'[project]\nname = "slow-fares"\nversion = "{version}"\n'
    )
    texts = {
        "pyproject.toml": project,
        "backend.py": SLOW_BACKEND.format(place=str(place)),
        "PKG-INFO": f"Metadata-Version: 2.1\nName: slow-fares\nVersion: {version}\n",
    }
    path = folder / f"slow-fares-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in texts.items():
            member = tarfile.TarInfo(f"slow-fares-{version}/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def _digest(raw: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).rstrip(b"=").decode()
