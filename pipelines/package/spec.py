"""A package: a compiled pipeline from the source, a file or a registry, and what it asks for."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.yaml_text import YamlError, load_documents
from pipelines.package.image import IMAGE_REPOSITORY
from trainer.config.settings import ConfigError
from trainer.suggest import did_you_mean

KINDS: dict[str, tuple[type, ...]] = {
    "STRING": (str,),
    "NUMBER_INTEGER": (int,),
    "NUMBER_DOUBLE": (int, float),
    "BOOLEAN": (bool,),
    "LIST": (list,),
    "STRUCT": (dict,),
}
WORDS = {
    "STRING": "a text",
    "NUMBER_INTEGER": "a whole number",
    "NUMBER_DOUBLE": "a number",
    "BOOLEAN": "true or false",
    "LIST": "a list",
    "STRUCT": "an object",
}
# A registry's host has a dot or a port, as for Docker: `us-docker.pkg.dev/…`, `localhost:5000/…`.
PULLABLE = re.compile(r"(?:[^/]+[.:][^/]*|localhost)/.+")


@dataclass(frozen=True, kw_only=True)
class Package:
    """A compiled pipeline: where it is from, its text and specification.

    `address` is that of a registry, which goes into the run; empty for what is from this machine.
    """

    source: str
    text: str
    spec: dict[str, Any]
    address: str = ""

    @property
    def name(self) -> str:
        """The pipeline's own name."""
        return str(self.spec["pipelineInfo"]["name"])

    @property
    def definitions(self) -> dict[str, dict[str, Any]]:
        """The pipeline's parameters: type, default and description of each."""
        found: dict[str, dict[str, Any]] = (
            self.spec["root"].get("inputDefinitions", {}).get("parameters", {})
        )
        return found

    @property
    def defaults(self) -> dict[str, Any]:
        """The default of each parameter that has one."""
        return {
            name: definition["defaultValue"]
            for name, definition in self.definitions.items()
            if "defaultValue" in definition
        }


def read_package(text: str, *, source: str, address: str = "") -> Package:
    """The package in a YAML or JSON text.

    Raises:
        ConfigError: it is no compiled pipeline; names the source.
    """
    try:
        documents = load_documents(text)
    except YamlError as error:
        raise ConfigError(f"{source} cannot be read: {error}") from error
    for document in documents:
        if isinstance(document, dict) and "platforms" in document:
            _refuse_platforms(document["platforms"], source)
    for document in documents:
        if isinstance(document, dict) and "pipelineInfo" in document and "root" in document:
            return Package(source=source, text=text, spec=document, address=address)
    raise ConfigError(
        f"{source} is not a compiled pipeline: it has no pipelineInfo and root; make one with "
        "trainyard compile"
    )


def _refuse_platforms(platforms: dict[str, Any], source: str) -> None:
    """Refuses what a package asks of Kubernetes: no request to Vertex AI has a place for it."""
    for platform, asked in platforms.items():
        executors = asked.get("deploymentSpec", {}).get("executors", {})
        names = [f"{name} ({', '.join(wanted)})" for name, wanted in executors.items()]
        names += [f"the pipeline ({name})" for name in asked.get("pipelineConfig", {})]
        if names:
            raise ConfigError(
                f"{source} asks {platform} for what Vertex AI has not: {'; '.join(names)}. Leave "
                "these settings out and compile it again"
            )


def read_package_file(path: Path) -> Package:
    """The package in a file.

    Raises:
        ConfigError: the file cannot be read, or is none; names it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(
            f"cannot read the package {path}: {reason}; trainyard compile writes dist/mnist.yaml"
        ) from error
    return read_package(text, source=str(path))


def check_parameters(package: Package, values: dict[str, Any]) -> None:
    """Holds a run's parameters against those that the package takes.

    Raises:
        ConfigError: one is unknown, missing, or of another type; names it.
    """
    definitions = package.definitions
    for name, value in values.items():
        if name not in definitions:
            allowed = ", ".join(sorted(definitions)) or "none"
            raise ConfigError(
                f"{package.source} has no parameter {name!r};{did_you_mean(name, definitions)} "
                f"it has {allowed}. If the package is "
                "older than this source, compile it again"
            )
        kind = definitions[name].get("parameterType", "")
        if not _is_kind(value, kind):
            raise ConfigError(f"parameter {name} is {value!r}; it must be {WORDS[kind]} ({kind})")
    for name, definition in definitions.items():
        is_optional = definition.get("isOptional") or "defaultValue" in definition
        if name not in values and not is_optional:
            kind = definition.get("parameterType", "")
            raise ConfigError(
                f"parameter {name} ({kind}) of {package.source} has no default; give --set "
                f"{name}=VALUE"
            )


def check_images(package: Package) -> None:
    """Checks that Vertex AI can pull the image of every container.

    Raises:
        ConfigError: an image has no registry in its name; names it.
    """
    executors = package.spec.get("deploymentSpec", {}).get("executors", {})
    for name, executor in executors.items():
        image = executor.get("container", {}).get("image")
        if image is None or PULLABLE.fullmatch(image):
            continue
        what = image or "empty"
        raise ConfigError(
            f"image of {name} is {what}: Vertex AI cannot pull it; build and push one, and give "
            "--image LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/trainyard:TAG"
        )


def own_image(package: Package) -> str:
    """The image of the package's own steps; empty if it has none of ours."""
    executors = package.spec.get("deploymentSpec", {}).get("executors", {})
    images = (one.get("container", {}).get("image", "") for one in executors.values())
    return next((image for image in images if image.startswith(f"{IMAGE_REPOSITORY}:")), "")


def with_image(package: Package, image: str) -> Package:
    """The package with `image` in place of one that is named by the source alone.

    It is no longer what is at its address, if it has one.

    Raises:
        ConfigError: it holds no such image, so there is nothing to put it in place of.
    """
    old = own_image(package)
    if not old:
        raise ConfigError(
            f"--image: {package.source} was compiled with images of its own; compile it again "
            "with --image instead"
        )
    return read_package(package.text.replace(old, image), source=package.source)


def _is_kind(value: Any, kind: str) -> bool:
    if kind not in KINDS:
        return True
    if isinstance(value, bool) and kind != "BOOLEAN":
        return False
    is_whole = isinstance(value, float) and value.is_integer() and kind == "NUMBER_INTEGER"
    return isinstance(value, KINDS[kind]) or is_whole
