"""KFP component: the first step of a run, which looks at the registry and at the raw data."""

from typing import NamedTuple

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def start(
    project: str,
    location: str,
    run: str,
    model_name: str,
    workload: str,
    data_dir: str,
    trust_files: bool = False,
    prepare: str = "{}",
    trigger: str = "{}",
    schedule_time: str = "",
    create_time: str = "",
) -> NamedTuple(  # type: ignore[valid-type]
    "Start",
    [
        ("fingerprint", str),
        ("prepare", str),
        ("run_time", str),
        ("verdict", str),
        ("reasons", str),
        ("champion_uri", str),
        ("comparison", str),
    ],
):
    """Find the champion and the files of the run's date, and look for news in them.

    Never cached: files change, and so does the promoted version.

    Args:
        project: Project of the run.
        location: Location of the run.
        run: Name of the run.
        model_name: Display name of the model.
        workload: Name of the workload.
        data_dir: Cache of the raw files, as for prepare_examples.
        trust_files: Use the files in `data_dir` unverified.
        prepare: Further fields of PrepareOptions, a JSON object.
        trigger: Conditions of training (Trigger), a JSON object.
        schedule_time: Time for which a schedule started the run; empty without a schedule.
        create_time: Time at which the run was created.

    Returns:
        fingerprint: a text that changes when the raw data does, for cache keys; prepare: the
        options with the files and days of this run; run_time: time of its date; verdict: `train`,
        `compare` or `nothing new`; reasons: one a line; champion_uri: folder of the default
        version, empty without one; comparison: the version that the examples are to be compared
        with (AskedComparison), empty if they are not.
    """
    from components.errors import errors_in_one_line
    from components.model_version.champion import find_champion
    from components.prepare_examples.settings.options import PrepareOptions
    from components.shared.vertex.api import connect
    from components.start.step import start_run

    with errors_in_one_line() as limit:
        timeout_seconds = PrepareOptions.from_json(prepare).timeout_seconds
        limit.set(timeout_seconds, setting="prepare.timeout_seconds")
        api = connect(project, location)
        return start_run(
            api,
            champion=find_champion(api, model_name),
            run=run,
            model_name=model_name,
            workload=workload,
            data_dir=data_dir,
            trust_files=trust_files,
            prepare=prepare,
            trigger=trigger,
            schedule_time=schedule_time,
            create_time=create_time,
        )
