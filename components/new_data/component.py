"""KFP components: the data of a run, and whether there is anything to learn from it."""

from typing import NamedTuple

from kfp import dsl
from kfp.dsl import Artifact, Dataset, Input, Output

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def fingerprint_input(
    project: str,
    location: str,
    run: str,
    model_name: str,
    workload: str,
    data_dir: str,
    trust_files: bool = False,
    prepare: str = "{}",
    trigger: str = "{}",
    champion: str = "",
    champion_uri: str = "",
    schedule_time: str = "",
    create_time: str = "",
) -> NamedTuple(  # type: ignore[valid-type]
    "RunInput",
    [
        ("fingerprint", str),
        ("prepare", str),
        ("run_time", str),
        ("verdict", str),
        ("reasons", str),
        ("champion", str),
        ("champion_uri", str),
    ],
):
    """Find the files of the run's date, and compare them with those of the promoted version.

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
        champion: Resource name of the promoted version; empty without one.
        champion_uri: Folder of its files.
        schedule_time: Time for which a schedule started the run; empty without a schedule.
        create_time: Time at which the run was created.

    Returns:
        fingerprint: a text that changes when the raw data does, for cache keys; prepare: the
        options with the files and days of this run; run_time: time of its date; verdict: `train`,
        `compare` or `nothing new`; reasons: one a line; champion, champion_uri: the version that
        the examples are to be compared with, and its folder, empty if they are not.
    """
    from components.errors import errors_in_one_line
    from components.new_data.step import look_at_input
    from components.prepare_examples.settings.options import PrepareOptions

    with errors_in_one_line() as limit:
        timeout_seconds = PrepareOptions.from_json(prepare).timeout_seconds
        limit.set(timeout_seconds, setting="prepare.timeout_seconds")
        return look_at_input(
            project=project,
            location=location,
            run=run,
            model_name=model_name,
            workload=workload,
            data_dir=data_dir,
            trust_files=trust_files,
            prepare=prepare,
            trigger=trigger,
            champion=champion,
            champion_uri=champion_uri,
            schedule_time=schedule_time,
            create_time=create_time,
        )


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def compare_data(
    examples: Input[Dataset],
    drift: Output[Artifact],
    prepare: str,
    trigger: str,
    champion: str,
    champion_uri: str,
    verdict: str,
    reasons: str,
) -> NamedTuple("Compared", [("verdict", str), ("reasons", str)]):  # type: ignore[valid-type]
    """Compare the examples with the data of the promoted version.

    A step of its own: the examples, which may come from the cache, do not depend on that version.

    Args:
        examples: The prepared dataset.
        drift: The distances of the features, JSON.
        prepare: Options of prepare_examples as the run has them, with its baseline.
        trigger: Conditions of training (Trigger), a JSON object.
        champion: Resource name of the version to compare with; empty for no comparison.
        champion_uri: Folder of its files.
        verdict: That of fingerprint_input.
        reasons: Its reasons, one a line.

    Returns:
        verdict: `train` or `nothing new`; reasons: one a line.
    """
    from pathlib import Path

    from components.errors import errors_in_one_line
    from components.new_data.drift_since import compare
    from components.new_data.news import News
    from components.new_data.trigger import Trigger
    from components.prepare_examples.settings.options import PrepareOptions

    with errors_in_one_line():
        compared = compare(
            examples.path,
            news=News(verdict=verdict, reasons=tuple(reasons.splitlines())),
            trigger=Trigger.from_json(trigger),
            options=PrepareOptions.from_json(prepare),
            champion=champion,
            champion_uri=champion_uri,
        )
    Path(drift.path).write_text(compared.to_json(), encoding="utf-8")
    drift.metadata["drift"] = "\n".join(compared.words)
    return (compared.news.verdict, "\n".join(compared.news.reasons))
