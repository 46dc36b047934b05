"""Files for continuous integration, and the environments that they use: `trainyard new --ci`."""

import re
from pathlib import Path

from trainer.errors import ConfigError

PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
HERE = Path(__file__).parent
# By file of this folder: the file of the user's repository.
FILES = {
    "github.yaml": ".github/workflows/{name}.yaml",
    "cloudbuild.yaml": "cloudbuild-{name}.yaml",
    "dev.yaml": "environments/dev.yaml",
    "prod.yaml": "environments/prod.yaml",
}


def write_integration(folder: str, *, name: str, root: Path) -> tuple[list[str], list[str]]:
    """Write the files for a workload to the root of its repository.

    `folder` is the workload's, from the root.

    Returns:
        The files that were written, and the environments, which stay as they are.

    Raises:
        ConfigError: a file for this workload exists, or a shell would not read the folder's name.
    """
    if not PLAIN.fullmatch(folder):
        raise ConfigError(f"{folder!r}: give the folder a name of letters, digits, _, - and dots")
    targets = {source: target.format(name=name) for source, target in FILES.items()}
    kept = [path for path in targets.values() if (root / path).exists()]
    if own := [path for path in kept if not path.startswith("environments/")]:
        raise ConfigError(f"{', '.join(own)} exists; nothing is overwritten: rename or remove it")
    written = {source: path for source, path in targets.items() if path not in kept}
    for source, path in written.items():
        text = (HERE / source).read_text(encoding="utf-8")
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(
            text.replace("@FOLDER@", folder).replace("@NAME@", name), encoding="utf-8"
        )
    return list(written.values()), kept
