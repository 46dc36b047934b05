"""Packages: compiled pipelines from this source, a file or a registry, and their parameters."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.run_result.settings import parameters_of
from components.shared.text.user_file import FileError, read_text_file
from components.shared.text.yaml_text import YamlError, load_documents
from components.shared.vertex.task_details import images_in
from pipelines.package.image import IMAGE_REPOSITORY
from trainer import Json
from trainer.errors import ConfigError, did_you_mean, near_path

# Python's types of a parameter's type, and the type in words.
KINDS: dict[str, tuple[Any, str]] = {
    "STRING": (str, "a text"),
    "NUMBER_INTEGER": (int, "a whole number"),
    "NUMBER_DOUBLE": (int | float, "a number"),
    "BOOLEAN": (bool, "true or false"),
    "LIST": (list, "a list, as [a, b]"),
    "STRUCT": (dict, "an object"),
}


@dataclass(frozen=True, kw_only=True)
class Package:
    """A compiled pipeline: where it is from, its text and specification.

    `address` is its registry address, which becomes part of the run; empty for local packages.
    """

    source: str
    text: str
    spec: Json
    address: str = ""

    @property
    def name(self) -> str:
        """Return the pipeline's name."""
        return str(self.spec["pipelineInfo"]["name"])

    @property
    def definitions(self) -> dict[str, Json]:
        """Return the type, default and description of each parameter."""
        parameters: dict[str, Json] = (
            self.spec["root"].get("inputDefinitions", {}).get("parameters", {})
        )
        return parameters

    @property
    def defaults(self) -> Json:
        """Return the parameters' defaults."""
        return parameters_of({"pipelineSpec": self.spec})


def read_package(text: str, *, source: str, address: str = "") -> Package:
    """Return the package in a YAML or JSON text.

    Raises:
        ConfigError: the text is not a compiled pipeline.
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
        f"{source} is not a compiled pipeline: it has no pipelineInfo and root; compile one with "
        "trainyard compile"
    )


def _refuse_platforms(platforms: Json, source: str) -> None:
    """Refuse settings for platforms such as Kubernetes, which Vertex AI's requests cannot hold."""
    for platform, settings in platforms.items():
        executors = settings.get("deploymentSpec", {}).get("executors", {})
        names = [f"{name} ({', '.join(keys)})" for name, keys in executors.items()]
        names += [f"the pipeline ({name})" for name in settings.get("pipelineConfig", {})]
        if names:
            raise ConfigError(
                f"{source} has settings for {platform} that Vertex AI does not support: "
                f"{'; '.join(names)}. Remove these settings and compile it again"
            )


def read_package_file(path: Path) -> Package:
    """Return the package in a file.

    Raises:
        ConfigError: the file cannot be read, or is not a package.
    """
    try:
        text = read_text_file(path)
    except (OSError, FileError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"cannot read the package {path}: {reason}; trainyard compile writes dist/mnist.yaml"
            f"{near_path(path)}"
        ) from error
    return read_package(text, source=str(path))


def check_parameters(package: Package, values: Json) -> None:
    """Check a run's parameters against the package's definitions.

    Raises:
        ConfigError: a parameter is unknown, missing, or has the wrong type.
    """
    definitions = package.definitions
    for name, value in values.items():
        if name not in definitions:
            allowed = ", ".join(sorted(definitions)) or "none"
            raise ConfigError(
                f"{name}: {package.source} has no such parameter;"
                f"{did_you_mean(name, definitions)} its parameters are {allowed}. If the "
                "package is older than this source, compile it again"
            )
        kind = definitions[name].get("parameterType", "")
        if not _has_type(value, kind):
            raise ConfigError(f"{name} is {value!r}; it must be {KINDS[kind][1]} ({kind})")
    for name, definition in definitions.items():
        is_optional = definition.get("isOptional") or "defaultValue" in definition
        if name not in values and not is_optional:
            kind = definition.get("parameterType", "")
            raise ConfigError(
                f"parameter {name} ({kind}) of {package.source} has no default; give --set "
                f"{name}=VALUE"
            )


def own_image(package: Package) -> str:
    """Return the image of this repository that a package uses, "" if it uses none."""
    return next((i for i in images_in(package.spec) if i.startswith(f"{IMAGE_REPOSITORY}:")), "")


def with_image(package: Package, image: str) -> Package:
    """Return the package with `image` instead of this repository's image.

    The result has no address: the package at the address is unchanged.

    Raises:
        ConfigError: the package does not use an image of this repository.
    """
    old = own_image(package)
    if not old:
        raise ConfigError(
            f"--image: {package.source} was compiled with other images; compile it again with "
            "--image instead"
        )
    return read_package(package.text.replace(old, image), source=package.source)


def _has_type(value: Any, kind: str) -> bool:
    if kind not in KINDS:
        return True
    if isinstance(value, bool) and kind != "BOOLEAN":
        return False
    is_whole = isinstance(value, float) and value.is_integer() and kind == "NUMBER_INTEGER"
    return isinstance(value, KINDS[kind][0]) or is_whole
