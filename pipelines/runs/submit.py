"""Plan of a run: a package, with the run's parameters checked, as one request."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.shared.text.yaml_text import YamlError
from pipelines.config.cluster_files import read_cluster
from pipelines.config.run_config import RunConfig, check_labels
from pipelines.config.settings import read_value, with_settings
from pipelines.package.compile import compile_once, compile_pipeline
from pipelines.package.digests import by_digest, with_digests
from pipelines.package.image import check_holds, image_of
from pipelines.package.registry import FORM, download, is_address
from pipelines.package.spec import (
    Package,
    check_parameters,
    read_package,
    read_package_file,
    with_image,
)
from pipelines.places.target import Target
from pipelines.projects.runs import find_run, is_reference, unknown_workload
from pipelines.resources.kinds import LATEST
from pipelines.runs.request import RUN_NAME, run_request
from trainer import Json, paths
from trainer.errors import ConfigError
from trainer.references import SNAPSHOT, workload_name

TYPES = {"NUMBER_DOUBLE": "number", "NUMBER_INTEGER": "integer"}
PACKAGE_SUFFIXES = (".yaml", ".yml", ".json")
ACCOUNT = "service_account"
OWN_PARAMETERS = {"workload", "cluster", "train", "thresholds"}


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A run that can be created: its name, its package, and the body of the request.

    `config` is None for a pipeline of another repository.
    """

    run: str
    package: Package
    config: RunConfig | None
    request: Json


def is_package(source: str) -> bool:
    """Return whether a source is a package, a file or a registry address, and no workload."""
    return is_address(source) or Path(source).suffix in PACKAGE_SUFFIXES


def read_package_of(source: str, *, image: str | None = None) -> Package:
    """Return the package of a file or a registry address.

    Raises:
        ConfigError: it is not a package, or the image has other code of its workload.
    """
    package = download(source) if is_address(source) else read_package_file(Path(source))
    check_holds(image or "", str(package.defaults.get("workload", "")))
    return with_image(package, image) if image else package


def compile_package(
    source: str,
    *,
    workload: str,
    image: str | None = None,
    folder: Path | None = None,
    kept_in: Path | None = None,
) -> Package:
    """Return the package of a workload, with its defaults.

    `source` is the workload as the user gave it, from `folder`; `workload` as the run's steps find
    it: of a snapshot's path only the name becomes the package's default, so that the package is the
    same for every machine. The next call finds the package in `kept_in`.
    """
    name = Path(workload).name if SNAPSHOT.fullmatch(Path(workload).name) else workload
    config = find_run(source, folder=folder).replace(workload=name)
    image = image or image_of(name)
    if kept_in:
        return read_package(compile_once(image, config=config, folder=kept_in), source=source)
    return read_package(compile_pipeline(image, config=config), source=source)


def check_source(source: str) -> None:
    """Check that a source is a workload or a package.

    Raises:
        ConfigError: it is neither.
    """
    if not is_package(source) and not is_reference(source):
        raise ConfigError(
            f"{unknown_workload(source)}. A package is a .yaml file or an address, {FORM}/NAME/TAG"
        )


def config_of(package: Package, *, settings: list[str], cluster: Path | None) -> RunConfig | None:
    """Return a run's configuration: package defaults, then cluster file, then settings.

    None for a pipeline of another repository, which takes no cluster file.
    """
    if not set(package.definitions) >= OWN_PARAMETERS:
        if cluster:
            raise ConfigError(f"--cluster: {package.source} has no parameter for a cluster")
        return None
    try:
        config = RunConfig.from_parameters(package.defaults)
    except ValueError as error:
        raise ConfigError(f"{package.source}: {error}; compile it again") from error
    return configured(config, settings=settings, cluster=cluster)


def configured(config: RunConfig, *, settings: list[str], cluster: Path | None) -> RunConfig:
    """Return a configuration with a cluster file's cluster and the `--set` settings applied."""
    if cluster:
        config = config.replace(cluster=read_cluster(cluster))
    return with_settings(config, settings)


def check_run_name(run: str) -> None:
    """Check a run's name.

    Raises:
        ConfigError: it is not allowed.
    """
    if not RUN_NAME.fullmatch(run):
        raise ConfigError(f"the name {run!r} is not allowed; it must match {RUN_NAME.pattern}")
    if run == LATEST:
        raise ConfigError(f"the name {run!r} stands for the newest run; give another name")


def plan_run(
    package: Package,
    *,
    run: str,
    target: Target,
    config: RunConfig | None,
    settings: list[str] | None = None,
    use_cache: bool = True,
) -> Submission:
    """Return the request for a run, with everything checked that can be checked before sending.

    `settings` are for a pipeline of another repository, without `config`.

    Raises:
        ConfigError: a field is missing or has an invalid value.
    """
    check_run_name(run)
    if paths.is_in_bucket(target.pipeline_root):
        package = with_digests(package)
        if config and config.cluster.image:
            cluster = config.cluster.replace(image=by_digest(config.cluster.image))
            config = config.replace(cluster=cluster)
    if config:
        parameters = parameters_of(config, target)
        labels, service_account = config.labels, config.service_account
    else:
        parameters, labels = _plain_parameters(package, settings or [], target)
        is_parameter = ACCOUNT in package.definitions
        service_account = "" if is_parameter else parameters.pop(ACCOUNT, "")
    check_parameters(package, parameters)
    request = run_request(
        package,
        run=run,
        pipeline_root=target.pipeline_root,
        parameters=parameters,
        labels=labels,
        service_account=service_account,
        use_cache=use_cache,
    )
    return Submission(run=run, package=package, config=config, request=request)


def parameters_of(config: RunConfig, target: Target) -> Json:
    """Return all parameters of the pipeline for a run on `target`."""
    return {
        **config.parameters(),
        "data_dir": f"{target.data_root}/{config.name}" if target.data_root else "",
    }


def _plain_parameters(
    package: Package, settings: list[str], target: Target
) -> tuple[Json, dict[str, str]]:
    """Return the parameters and labels that settings give a pipeline of another repository.

    Its parameters `project` and `location`, if it has them, are the target's.
    """
    places = {"project": target.project, "location": target.location}
    values: Json = {name: value for name, value in places.items() if name in package.definitions}
    labels: dict[str, str] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set {setting!r} has no value; write NAME=VALUE")
        if key.startswith("labels."):
            labels[key.removeprefix("labels.")] = text
        else:
            kind = str(package.definitions.get(key, {}).get("parameterType", ""))
            values[key] = (
                text if kind == "STRING" else _value(setting, text, {"type": TYPES.get(kind)})
            )
    check_labels(labels)
    return values, labels


def _value(setting: str, text: str, schema: Json) -> Any:
    try:
        return read_value(text, schema)
    except YamlError as error:
        raise ConfigError(f"--set {setting}: {error}") from error


def run_prefix(package: Package) -> str:
    """Return the prefix of the names of a package's runs: its workload or the pipeline's name."""
    name = workload_name(str(package.defaults.get("workload", package.name)))
    return re.sub("[^a-z0-9]+", "-", name.lower()).strip("-") or "run"
