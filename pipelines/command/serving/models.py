"""`trainyard models`: list, show, upload, promote, decide about, roll back and delete models."""

import argparse
import pkgutil
from dataclasses import asdict
from functools import partial
from typing import Any

from components.model_version.registry import list_versions
from components.plan_training.machines import machine_problem
from components.shared.vertex.api import VertexApi
from pipelines.command.actions import (
    actions_of,
    add_action,
    add_json,
    chosen,
    confirmed,
    describe,
    listing,
    print_json,
    print_table,
)
from pipelines.command.target_options import with_api
from pipelines.resources.kinds import JOB, LATEST
from pipelines.resources.models import (
    all_versions,
    delete_model,
    history_table,
    model_history,
    models_table,
    set_default_version,
)
from pipelines.resources.names import get_model, get_version, model_name, short_name
from trainer.config.trust import add_trust_flags, trust_of

UPLOAD = """\
Adds a version to a model, creating the model with its first version. The source is a job that
succeeded (id or name) or a folder with a SavedModel. The folder may come from another trainer, such
as Keras' model.export(DIR); its signature serving_default then serves TensorFlow Serving's rows.

  trainyard models upload mnist-1 --name mnist
  trainyard models upload ./exported --name churn --version-alias candidate
  trainyard models upload gs://BUCKET/runs/mnist-1/model --name mnist --on vertex --project P

No pipeline has evaluated the model: compare its metrics before you deploy it.
"""


def add_models(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `models`."""
    actions = actions_of(parser)
    list_ = listing(
        lambda api, _: all_versions(api),
        lambda all_: print_table(models_table(all_)),
        noun="models",
    )
    add_json(add_action(actions, "list", list_, "list all models with their versions"))
    show = add_action(actions, "show", with_api(_show), "show a model, or MODEL@VERSION", "MODEL")
    add_json(show)
    _add_upload(actions)
    text = (
        "give MODEL@VERSION the alias default; endpoints keep serving what they serve (rollback "
        "and endpoints deploy change that)"
    )
    add_action(actions, "set-default", with_api(_set_default), text, "MODEL@VERSION")
    text = (
        "make the previous version the default again and serve it wherever the default is served; "
        "its predictions are checked, and nothing changes if the check fails. The version that is "
        "left is rejected: no run promotes the same model again"
    )
    _add_change(actions, "rollback", "releases:roll_back", text, "MODEL")
    _add_decisions(actions)
    text = (
        "show which version was the default when, why, and from which run, and who has decided "
        "what about which version, the newest first"
    )
    history = add_action(actions, "history", with_api(_history), text, "MODEL")
    add_json(history, "with whole times")
    text = "print a model card: intended use, data, metrics, limits, decisions"
    add_action(actions, "card", with_api(_card), text, "MODEL@VERSION")
    text = "delete a model, or only MODEL@VERSION, which must not be the default"
    delete = add_action(actions, "delete", with_api(_delete), text, "MODEL")
    delete.add_argument("--all", action="store_true", help="delete all versions without asking")


def _add_decisions(actions: Any) -> None:
    """Add the actions by which a person decides what runs may do."""
    text = (
        "keep the default version where it is until `models release`: runs train and evaluate, and "
        "end as `held`; commands still roll back and set the default"
    )
    _add_change(actions, "hold", "decisions:hold", text, "MODEL", needs_reason=True)
    text = "end a hold: the next run that passes is promoted"
    _add_change(actions, "release", "decisions:release", text, "MODEL")
    text = (
        "promote a version that waits (--set release.approval=required), or was rejected, as its "
        "run would have: replay, canary, traffic, a check of its predictions, then the alias "
        "default; if a check fails, all stays as it was"
    )
    approve = _add_change(actions, "approve", "decisions:approve", text, "MODEL@VERSION")
    approve.add_argument(
        "--uncompared",
        action="store_true",
        help="also if another version became the default since its evaluation",
    )
    text = "reject a version: no run promotes the same model; the default is left by `rollback`"
    version = "MODEL@VERSION"
    _add_change(actions, "reject", "decisions:reject", text, version, needs_reason=True)


def _add_change(
    actions: Any, name: str, function: str, text: str, argument: str, *, needs_reason: bool = False
) -> argparse.ArgumentParser:
    """Add an action that calls a function of pipelines.serving with a model and a reason."""
    command = with_api(partial(_change, function))
    parser = add_action(actions, name, command, text, argument)
    parser.add_argument(
        "--reason", required=needs_reason, default="", metavar="TEXT", help="for `models history`"
    )
    return parser


def add_machine(parser: argparse.ArgumentParser, default: str = "") -> None:
    """Add the machine type of a prediction server."""
    text = f"Vertex AI: machine type; default: {default or 'as the endpoint or the run has'}"
    parser.add_argument("--machine", type=_machine, default=default or None, help=text)


def _machine(text: str) -> str:
    if problem := machine_problem(text, is_serving=True):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; {problem}")
    return text


def _add_upload(actions: Any) -> None:
    parser = add_action(
        actions,
        "upload",
        with_api(_upload, makes_state=True),
        "upload a job's or a folder's model as a version",
    )
    describe(parser, UPLOAD)
    parser.add_argument(
        "source", metavar="JOB|DIR", help="job id or name, or a folder; ./NAME is always a folder"
    )
    parser.add_argument("--name", required=True, help="name of the model; created if missing")
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
        help="image of the prediction server; default: the job's on Vertex AI, this source's here",
    )
    add_trust_flags(parser)


def _show(api: VertexApi, arguments: argparse.Namespace) -> int:
    version = get_model(api, arguments.name)
    if arguments.json:
        return print_json(version)
    from pipelines.provenance.lineage import lineage_of, lineage_text  # PyArrow

    print(lineage_text(lineage_of(api, version)))
    if "@" in arguments.name:
        return 0
    print()
    return print_table(models_table(list_versions(api, version["name"])))


def _upload(api: VertexApi, arguments: argparse.Namespace) -> None:
    from pipelines.serving.upload import upload  # imports NumPy and YAML

    source = arguments.source
    if source == LATEST:
        source = short_name(chosen(JOB, api, source, verb="upload")["name"])
    lines = upload(
        api,
        source,
        name=arguments.name,
        aliases=arguments.aliases,
        image=arguments.image,
        trust=trust_of(arguments),
        is_remote=arguments.on == "vertex",
    )
    print("\n".join(lines))


def _set_default(api: VertexApi, arguments: argparse.Namespace) -> None:
    print(f"the default is {set_default_version(api, arguments.name)}")


def _change(function: str, api: VertexApi, arguments: argparse.Namespace) -> None:
    """Call a function of pipelines.serving, imported only now, and print its lines."""
    change = pkgutil.resolve_name(f"pipelines.serving.{function}")
    options = {"is_compared": not arguments.uncompared} if "uncompared" in arguments else {}
    print("\n".join(change(api, arguments.name, reason=arguments.reason, **options)))


def _history(api: VertexApi, arguments: argparse.Namespace) -> int:
    periods = model_history(api, model_name(api, arguments.name))
    if arguments.json:
        return print_json([asdict(period) for period in periods])
    return print_table(history_table(periods))


def _card(api: VertexApi, arguments: argparse.Namespace) -> None:
    from pipelines.provenance.card import model_card  # these import PyArrow
    from pipelines.provenance.lineage import lineage_of

    print(model_card(lineage_of(api, get_version(api, arguments.name))), end="")


def _delete(api: VertexApi, arguments: argparse.Namespace) -> None:
    def confirm_all(num_versions: int) -> bool:
        question = f"Delete {arguments.name} with its {num_versions} versions?"
        return arguments.all or confirmed(question)

    print(f"deleted {delete_model(api, arguments.name, confirm_all=confirm_all)}")
