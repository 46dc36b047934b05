"""`trainyard models upload`: a trained model becomes a version, without a pipeline."""

import argparse
from typing import Any

from pipelines.command.models_endpoints import add_action, api_of
from pipelines.serving.upload import upload

DESCRIPTION = """\
Adds a version to a model, which is made with its first one: of a job that succeeded (id or name),
or of a folder with a SavedModel. The folder may be another trainer's, as what Keras writes with
model.export(DIR); its signature serving_default is then asked in TensorFlow Serving's row form.

  trainyard models upload mnist-1 --name mnist
  trainyard models upload ./exported --name churn --version-alias candidate
  trainyard models upload gs://BUCKET/runs/mnist-1/model --name mnist --on vertex --project P

No pipeline has evaluated the model: compare its metrics before you deploy it.
"""


def add_upload(actions: Any) -> None:
    """Adds `models upload`."""
    parser = add_action(actions, "upload", _upload, "a version of a job's or a folder's model")
    parser.description = DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "source", metavar="JOB|DIR", help="job's id or name, or a folder; ./NAME is always a folder"
    )
    parser.add_argument("--name", required=True, help="of the model; made if there is none")
    parser.add_argument(
        "--version-alias",
        action="append",
        default=[],
        metavar="ALIAS",
        dest="aliases",
        help="may be repeated; `default` makes it the default version",
    )
    parser.add_argument(
        "--image",
        default="",
        help="of the prediction server; default: the job's on Vertex AI, here that of the source",
    )
    parser.set_defaults(command=_upload)


def _upload(arguments: argparse.Namespace) -> int:
    with api_of(arguments) as api:
        lines = upload(
            api,
            arguments.source,
            name=arguments.name,
            aliases=arguments.aliases,
            image=arguments.image,
            is_remote=arguments.on == "vertex",
        )
        print("\n".join(lines))
    return 0
