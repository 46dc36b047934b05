"""The KFP component: raw data to a dataset of TFRecords."""

from kfp import dsl
from kfp.dsl import Dataset, Output

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def prepare_examples(
    workload: str,
    data_dir: str,
    examples: Output[Dataset],
    max_examples: int = 0,
    trust_files: bool = False,
    prepare: str = "{}",
    input_fingerprint: str = "",
):
    """Fetch and verify a workload's raw data, and write it as sharded TFRecords.

    Args:
        workload: Name of the workload.
        data_dir: Cache of the raw files, a folder or gs://; empty for the default.
        examples: The dataset, a folder with manifest.json.
        max_examples: Use only the first examples of each split, this many in all; 0 for all.
        trust_files: Use the files in `data_dir` unverified and fetch none.
        prepare: Further fields of PrepareOptions, a JSON object.
        input_fingerprint: Fingerprint of the raw data, so that the cache key covers it.
    """
    from pathlib import Path

    from components.errors import errors_in_one_line
    from components.prepare_examples.fingerprint import check_unchanged
    from components.prepare_examples.output.publish import INPUT
    from components.prepare_examples.prepare import describe
    from components.prepare_examples.prepare import prepare as run
    from components.prepare_examples.settings.options import PrepareOptions

    with errors_in_one_line() as limit:
        options = PrepareOptions.from_json(
            prepare, max_examples=max_examples, trust_files=trust_files
        )
        limit.set(options.timeout_seconds, setting="prepare.timeout_seconds")
        manifest = run(workload, output_dir=examples.path, data_dir=data_dir, options=options)
        data = check_unchanged(input_fingerprint, workload, data_dir=data_dir, options=options)
    Path(examples.path, INPUT).write_text(data.to_json(options), encoding="utf-8")
    examples.metadata.update(describe(manifest))
