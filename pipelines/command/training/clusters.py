"""`trainyard cluster`: explain cluster files, and print commands for your own hosts."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from components.plan_training.cluster_file import SPELLINGS
from components.plan_training.explain import explain, notes
from components.plan_training.prices import PRICES, read_prices
from components.plan_training.spellings.tf_config import commands
from pipelines.command.actions import actions_of, add_json, print_json
from pipelines.config.cluster_files import read_cluster_file
from pipelines.projects.runs import FORMS, find_run
from trainer.config.settings import split_list

DEFAULT_WORKLOAD = "mnist"
COMMANDS_HELP = """\
Prints the command to start each replica of a cluster on your own hosts. Flags after -- are passed
to the trainer. All hosts must see --examples-dir and --output-dir under the same path. TensorFlow's
servers have no authentication: allow only these hosts to reach the ports.

  trainyard cluster commands configs/clusters/two_hosts.yaml --hosts 10.0.0.1:2222,10.0.0.2:2222 \\
      -- --workload mnist --examples-dir /shared/examples --output-dir /shared/out
"""


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `cluster`."""
    actions = actions_of(parser)
    _add_explain(actions)
    _add_commands(actions)


def _add_explain(actions: Any) -> None:
    text = "explain a cluster file: worker pools, batches, cost, mistakes and warnings"
    parser = actions.add_parser("explain", help=text, description=text)
    parser.add_argument("file", type=Path, metavar="FILE", help="cluster file: configs/clusters")
    forms = [name for name, spelling in SPELLINGS.items() if spelling.write]
    parser.add_argument("--as", choices=forms, dest="form", help="convert to another format")
    parser.add_argument("--hosts", type=split_list, default=[], help="HOST:PORT,… for TF_CONFIG")
    parser.add_argument(
        "--workload", default=DEFAULT_WORKLOAD, help=f"{FORMS}; default: %(default)s"
    )
    add_json(parser, "the cluster and the notes as JSON")
    parser.set_defaults(command=_explain)


def _add_commands(actions: Any) -> None:
    parser = actions.add_parser(
        "commands",
        usage="trainyard cluster commands FILE --hosts HOST:PORT,… -- FLAGS OF THE TRAINER",
        help="print the command to run on each of your own hosts",
        description=COMMANDS_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="cluster file: configs/clusters")
    parser.add_argument(
        "--hosts", type=split_list, required=True, metavar="HOST:PORT,…", help="chief, workers, ps"
    )
    parser.set_defaults(command=_commands, flags=[])


def _explain(arguments: argparse.Namespace) -> None:
    file = read_cluster_file(arguments.file)
    if write := SPELLINGS[arguments.form].write if arguments.form else None:
        print(yaml.safe_dump(write(file.spec), sort_keys=False).rstrip())
        return
    batch_size = find_run(arguments.workload).train.batch_size
    if arguments.json:
        remarks = [*file.warnings, *notes(file.spec, batch_size)]
        print_json({"format": file.spelling, "cluster": file.spec.to_dict(), "notes": remarks})
        return
    hosts, prices = arguments.hosts or file.hosts, read_prices(PRICES)
    print("\n".join(explain(file, batch_size=batch_size, prices=prices, hosts=hosts)))


def _commands(arguments: argparse.Namespace) -> None:
    file = read_cluster_file(arguments.file)
    by_replica = commands(file.spec, arguments.hosts, flags=arguments.flags)
    for name, command in by_replica.items():
        print(f"# {name}{_host_note(name, arguments.hosts, list(by_replica))}\n{command}")


def _host_note(name: str, hosts: Sequence[str], names: list[str]) -> str:
    if name.startswith("evaluator"):
        return ", on any host"
    return f", on {hosts[names.index(name)].rpartition(':')[0] or hosts[names.index(name)]}"
