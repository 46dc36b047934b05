"""`trainyard predict`: predictions of a model for the rows of files."""

import argparse
import json
from pathlib import Path

from components.shared.vertex.creations import create_labelled
from pipelines.command.actions import add_json, describe
from pipelines.command.serving.models import add_machine
from pipelines.command.target_options import add_target, api_of, run_module
from pipelines.exit_codes import FAILED, OK, USAGE, exit_codes_text
from pipelines.predictions.options import PredictOptions
from pipelines.serving import batch
from trainer import paths
from trainer.config.flags import add_flags
from trainer.config.trust import add_trust_flags, trust_of
from trainer.errors import ConfigError

PREDICT = f"""\
Writes a model's predictions for all rows of files, without an endpoint: JSON lines of instances,
CSV or Parquet tables, TFRecords, and pictures. The model is a name, MODEL@VERSION or MODEL@ALIAS,
a training job's number or name, a run, or the folder of a model, as ./out/model. Rows without a
prediction go to errors-*.jsonl with the reason.

  trainyard predict taxi --input 'trips/*.csv' --output predicted
  trainyard predict mnist@previous --input digits.jsonl --output out --format parquet
  trainyard predict mnist --input gs://B/digits.jsonl --output gs://B/out --on vertex --project P

The output folder appears when it is complete; a prediction that was interrupted starts again. On
Vertex AI the command creates a batchPredictionJob, prints its name and does not wait.

{exit_codes_text(OK, FAILED, USAGE)}
"""


def add_predict(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `predict`."""
    describe(parser, PREDICT)
    text = "MODEL, MODEL@VERSION, MODEL@ALIAS, a job, a run or ./DIR"
    parser.add_argument("model", metavar="MODEL|JOB|RUN", help=text)
    parser.add_argument(
        "--input",
        required=True,
        action="append",
        dest="inputs",
        metavar="PATTERN",
        help="files, in quotes if it is a pattern; may be repeated",
    )
    parser.add_argument(
        "--output",
        required=True,
        metavar="DIR",
        help="folder to create, or to replace if it holds an earlier prediction",
    )
    add_flags(parser, PredictOptions)
    add_machine(parser, "n1-standard-4")
    parser.add_argument(
        "--replicas", type=int, default=1, metavar="N", help="Vertex AI: machines; %(default)s"
    )
    add_json(parser, "the summary of the prediction as JSON")
    add_trust_flags(parser)
    add_target(parser)
    parser.set_defaults(command=_predict)


def _predict(arguments: argparse.Namespace) -> int:
    given = {
        key: text for key, text in vars(arguments).items() if key in PredictOptions.model_fields
    }
    options = PredictOptions.from_texts(given)
    if arguments.on == "vertex":
        if given := options.given():
            raise ConfigError(
                f"a batchPredictionJob of Vertex AI has no {', '.join(given)}; leave it out"
            )
        return _create_job(arguments)
    if batch.is_folder(arguments.model):
        uri, trust = batch.folder_of(arguments.model), trust_of(arguments)
    else:
        with api_of(arguments) as api:
            uri, trust = batch.find_model_of(api, arguments.model)
    request = {
        "model": uri,
        "inputs": arguments.inputs,
        "output_dir": arguments.output,
        "options": options.given(),
        "trust": trust.flags(),
        "is_json": arguments.json,
    }
    return run_module(arguments, "pipelines.predictions", json.dumps(request))


def _create_job(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        version, _, _ = batch.find_version(api, arguments.model)
        request = batch.job_request(
            version,
            name=f"predict-{Path(arguments.model).name.partition('@')[0]}",
            inputs=[paths.uri(path) for path in arguments.inputs],
            output_uri=paths.uri(arguments.output),
            machine=arguments.machine,
            num_replicas=arguments.replicas,
        )
        print(create_labelled(api, "batchPredictionJobs", request)["name"])
    return OK
