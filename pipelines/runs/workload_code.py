"""Paths by which a run's workload code reaches its steps, replicas and prediction servers."""

import glob
import logging
from pathlib import Path

from components.evaluate.gate.slice_rules import with_declared_names
from components.evaluate.thresholds import check_direction, check_metrics, read_limits
from components.prepare_examples.settings.patterns import has_dates, without_dates
from pipelines.config.built_in import columns_of, metrics_of
from pipelines.config.run_config import RunConfig
from pipelines.config.settings import MODEL_GROUP
from pipelines.places.target import Target, make_state_dir
from pipelines.projects.description import describe
from pipelines.projects.project import RUN_FILE, Project, Snapshot, take_snapshot
from pipelines.projects.requirements import check_requirements
from pipelines.projects.runs import find_run, in_run_file
from trainer import Json, paths
from trainer.errors import ConfigError, near_path
from trainer.references import CODE_DIR, SNAPSHOT

logger = logging.getLogger(__name__)


def with_code(config: RunConfig, target: Target, *, uses_image: bool) -> RunConfig:
    """Return a run whose workload its steps find: checked, and copied if it is a folder.

    In an image a folder is known by the name of its snapshot, else by the snapshot's path, so that
    a run does not notice a later edit.

    The workload is as the user gave it, or the snapshot of a package. With `uses_image` steps run
    in an image instead of this environment.

    Raises:
        ConfigError: the workload cannot be loaded, its settings are wrong, its requirements are not
            installed, or its data is missing.
    """
    if paths.is_in_bucket(target.pipeline_root):
        check_data_is_remote(config)
    if config.is_built_in:
        own = find_run(config.workload)
        if (config.thresholds, config.gate) != (own.thresholds, own.gate):
            limits = read_limits(config.thresholds)
            check_metrics(limits, metrics_of(config.workload), owner=config.name)
            _check_slices(config, columns_of(config.workload))
        return config
    if SNAPSHOT.fullmatch(config.workload):
        return _of_package(config, target.state_dir, uses_image=uses_image)
    path = Path(config.workload)
    if not path.is_absolute():
        description = describe(config)
        workload = f"{config.workload}@{description['digest']}"  # for the keys of the step cache
        return _described(config, description).replace(workload=workload)
    snapshot = snapshot_of(config, target.state_dir)
    if _is_loadable(snapshot.project, uses_image=uses_image):
        config = _described(config, describe(config, snapshot), run_file=snapshot.project.run_file)
    reference = snapshot.reference if uses_image else str(snapshot.folder)
    return config.replace(workload=reference)


def snapshot_of(config: RunConfig, state_dir: Path) -> Snapshot:
    """Return the snapshot of a run's folder, without the data that its run.yaml names.

    --set has no influence on it, so that an image and every run agree on the digest.
    """
    options = find_run(config.workload).prepare_options()
    make_state_dir(state_dir)
    data = (*without_dates(options.files), options.schema_file, options.baseline)
    return take_snapshot(Project(Path(config.workload)), state_dir, data=data)


def _described(config: RunConfig, description: Json, *, run_file: Path | None = None) -> RunConfig:
    """Return the run with its model's settings as the types that the workload declares."""
    try:
        check_data(config, description)
        _check_thresholds(config, description)
        _check_slices(config, description)
    except ConfigError as error:
        raise ConfigError(in_run_file(str(error), config, run_file)) from error
    typed = {f"{MODEL_GROUP}.{key}": value for key, value in description["model_settings"].items()}
    return config.replace(train=config.train.given() | typed)


def _check_slices(config: RunConfig, description: Json) -> None:
    features = description["features"]
    rules = config.gate.rules
    if rules and not features:
        raise ConfigError(
            f"gate.slices is {', '.join(config.gate.slices)}, but {config.name} has no"
            " columns to cut its examples by; leave it out"
        )
    with_declared_names(rules, features, description.get("aliases", {}), owner=config.name)


def _check_thresholds(config: RunConfig, description: Json) -> None:
    """Check that the label's kind has the metrics of the thresholds.

    Those that a model of the user's own is compiled with are checked in the evaluate step.

    Raises:
        ConfigError: it has not.
    """
    kind = description["label"]["kind"]
    for limit in read_limits(config.thresholds):
        if description["may_have_more_metrics"]:
            check_direction(limit)
        else:
            check_metrics([limit], description["metrics"], owner=f"a label of kind {kind}")


def check_data_is_remote(config: RunConfig) -> None:
    """Check that the files of a run on Vertex AI are in buckets.

    Raises:
        ConfigError: one is on this machine.
    """
    for file in config.prepare_options().files:
        if not paths.is_in_bucket(file):
            raise ConfigError(
                f"prepare.files is {file}, which a run on Vertex AI cannot read; copy it to a "
                "bucket and set prepare.files to gs://BUCKET/FOLDER/…"
            )


def check_data(config: RunConfig, description: Json) -> None:
    """Check that a user's workload has data, and that its local files exist.

    Raises:
        ConfigError: there is none, or a path or pattern matches nothing.
    """
    options = config.prepare_options()
    if not options.files and options.source == "files" and not description["has_source"]:
        raise ConfigError(
            f"{config.workload} has no data: name it in {RUN_FILE}, as `prepare: {{files: "
            "[data.csv]}`, or with --set prepare.files=/PATH"
        )
    for file in options.files:
        if has_dates(file) or paths.is_in_bucket(file):  # the run knows its date
            continue
        if not glob.glob(file, recursive=True):
            raise ConfigError(f"prepare.files is {file}; there is no such file{near_path(file)}")


def _is_loadable(project: Project, *, uses_image: bool) -> bool:
    """Return whether this environment has a project's packages; it must, unless an image is used.

    Raises:
        ConfigError: it has not, and steps run in it.
    """
    if not project.requirements:
        return True
    try:
        check_requirements(project.requirements)
    except ConfigError as error:
        if not uses_image:
            raise
        logger.warning("%s is not checked before it is sent: %s", project.path, error)
        return False
    return True


def _of_package(config: RunConfig, state_dir: Path, *, uses_image: bool) -> RunConfig:
    """Return the run of a package that was compiled from a folder, with its snapshot's path.

    For an image it keeps the name, and is checked only if this machine has the snapshot.

    Raises:
        ConfigError: this machine does not have the snapshot, or a setting is wrong.
    """
    folder = state_dir / CODE_DIR / config.workload
    if not folder.is_dir():
        if uses_image:
            return config
        raise ConfigError(
            f"the package needs the code {folder.name}, but there is no {folder}: compile its "
            "folder again here with trainyard compile FOLDER, or use --containers with its image"
        )
    copied = config.replace(workload=str(folder))
    if _is_loadable(Project(folder), uses_image=uses_image):
        copied = _described(copied, describe(copied))
    return config if uses_image else copied
