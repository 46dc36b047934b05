"""What `trainyard submit` sends: a package, with the run's parameters checked, as one request."""

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.yaml_text import YamlError
from pipelines.config import RUNS, RunConfig, named_run, read_cluster, with_settings
from pipelines.package.compile import compile_pipeline
from pipelines.package.image import default_image
from pipelines.package.registry import download, is_address
from pipelines.package.spec import (
    Package,
    check_images,
    check_parameters,
    read_package,
    read_package_file,
    with_image,
)
from pipelines.runs.request import RUN_NAME, run_request
from pipelines.target.places import Target
from pipelines.values import read_value
from pipelines.vertex_checks import check_labels
from trainer import paths
from trainer.config.settings import ConfigError
from trainer.json_types import Json
from trainer.suggest import did_you_mean

TYPES = {"NUMBER_DOUBLE": float, "NUMBER_INTEGER": int}
OWN_PARAMETERS = {"workload", "cluster", "train", "thresholds"}


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to run, apart from what."""

    image: str | None = None
    use_cache: bool = True
    service_account: str | None = None


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A run that can be sent: its name, its package, and the body of the request.

    `config` is None for a pipeline that is not this repository's.
    """

    run: str
    package: Package
    config: RunConfig | None
    request: Json


def package_of(source: str, *, image: str | None = None) -> Package:
    """The package that a workload's name, a file or a registry's address stands for.

    Raises:
        ConfigError: it stands for none; says what is allowed.
    """
    if source in RUNS:
        text = compile_pipeline(image or default_image(), config=named_run(source))
        return read_package(text, source=source)
    if is_address(source):
        package = download(source)
    elif Path(source).suffix in (".yaml", ".yml", ".json") or "/" in source:
        package = read_package_file(Path(source))
    else:
        raise ConfigError(
            f"unknown workload {source!r};{did_you_mean(source, RUNS)} there are "
            f"{', '.join(RUNS)}. A package is a file that ends in .yaml, or an address https://LOCATION-kfp.pkg.dev/PROJECT/REPOSITORY/NAME/TAG"
        )
    return with_image(package, image) if image else package


def config_of(package: Package, *, settings: list[str], cluster: Path | None) -> RunConfig | None:
    """The run's configuration: the package's defaults, then the cluster file, then the settings.

    None if the pipeline is not this repository's; it takes no cluster file then.
    """
    if not set(package.definitions) >= OWN_PARAMETERS:
        if cluster:
            raise ConfigError(f"--cluster: {package.source} has no parameter for a cluster")
        return None
    try:
        config = RunConfig.from_parameters(package.defaults)
    except ValueError as error:
        raise ConfigError(f"{package.source}: {error}; compile it again") from error
    if cluster:
        config = dataclasses.replace(config, cluster=read_cluster(cluster))
    return with_settings(config, settings)


def plan_run(
    package: Package,
    *,
    run: str,
    target: Target,
    config: RunConfig | None,
    options: RunOptions,
    settings: list[str] | None = None,
) -> Submission:
    """The request for a run, with everything checked that can be checked before it is sent.

    `settings` are those of a pipeline that has no `config`.

    Raises:
        ConfigError: something is not allowed or missing; names the field.
    """
    if not RUN_NAME.fullmatch(run):
        raise ConfigError(f"the name {run!r} is not allowed; it must match {RUN_NAME.pattern}")
    if config and options.service_account:
        config = dataclasses.replace(config, service_account=options.service_account)
    if config:
        parameters = {**_place(package, target), **parameters_of(config, target)}
        labels = config.labels
    else:
        parameters, labels = _plain_parameters(package, settings or [], target)
    check_parameters(package, parameters)
    if paths.is_in_bucket(target.pipeline_root):
        check_images(package)
    request = run_request(
        package,
        run=run,
        pipeline_root=target.pipeline_root,
        parameters=parameters,
        labels=labels,
        service_account=(config.service_account if config else options.service_account) or "",
        use_cache=options.use_cache,
    )
    return Submission(run=run, package=package, config=config, request=request)


def parameters_of(config: RunConfig, target: Target) -> dict[str, Any]:
    """All parameters of the pipeline for a run on `target`."""
    return {
        **config.parameters(),
        "data_dir": f"{target.data_root}/{config.workload}" if target.data_root else "",
    }


def _place(package: Package, target: Target) -> dict[str, str]:
    """The target's project and location, for a pipeline that has parameters for them.

    Ours has none: its tasks take both from the run. Packages compiled earlier had.
    """
    place = {"project": target.project, "location": target.location}
    return {name: value for name, value in place.items() if name in package.definitions}


def _plain_parameters(
    package: Package, settings: list[str], target: Target
) -> tuple[dict[str, Any], dict[str, str]]:
    """Parameters and labels of any pipeline; project and location are the target's."""
    values: dict[str, Any] = {**_place(package, target)}
    labels: dict[str, str] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set {setting!r} has no value; write NAME=VALUE")
        if key.startswith("labels."):
            labels[key.removeprefix("labels.")] = text
        else:
            kind = str(package.definitions.get(key, {}).get("parameterType", ""))
            values[key] = text if kind == "STRING" else _value(setting, text, TYPES.get(kind))
    check_labels(labels)
    return values, labels


def _value(setting: str, text: str, kind: Any) -> Any:
    try:
        return read_value(text, kind)
    except YamlError as error:
        raise ConfigError(f"--set {setting}: {error}") from error


def run_prefix(package: Package) -> str:
    """What the names of a package's runs begin with: `mnist`, or the pipeline's name."""
    name = str(package.defaults.get("workload", package.name))
    return re.sub("[^a-z0-9]+", "-", name.lower()).strip("-") or "run"
