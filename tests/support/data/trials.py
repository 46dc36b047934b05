"""Trials of workloads, as `trainyard check` makes them, in forks."""

import json
from pathlib import Path

from components.evaluate.gate.options import GateOptions
from components.prepare_examples.settings.options import PrepareOptions
from pipelines.projects.trial.__main__ import Trial
from pipelines.projects.trial.findings import OK, Finding
from tests.support.processes.everything import EVERYTHING
from trainer import Json
from vertex_local.tests.support.forks import forks_with

TIMEOUT_SECONDS = 90


def try_folder(
    folder: Path,
    data: Path,
    *,
    thresholds: Json | None = None,
    gate: Json | None = None,
    prepare: Json | None = None,
    **train: object,
) -> dict[str, Finding]:
    """Try a workload's folder with data; return the findings by name."""
    log = folder.parent / "log"
    log.unlink(missing_ok=True)
    settings = folder.parent / "settings.json"
    groups = {"train": train, "prepare": {"files": [str(data)], **(prepare or {})}}
    settings.write_text(json.dumps({**groups, "thresholds": thresholds or {}, "gate": gate or {}}))
    words = ["python", "-m", "pipelines.projects.trial", str(folder), str(settings)]
    fork = forks_with(*EVERYTHING).start(words, log_path=log)
    assert fork.wait(TIMEOUT_SECONDS) == 0, log.read_text()
    lines = [line for line in log.read_text().splitlines() if line.startswith('{"name"')]
    found = [Finding(**json.loads(line)) for line in lines]
    return {one.name: one for one in found}


def try_data(
    own: Path, options: PrepareOptions, folder: Path, *, gate: Json | None = None
) -> Finding:
    """Try only the declaration and the data of a workload; `folder` is an empty one."""
    judged = GateOptions.from_json(json.dumps(gate or {}))
    findings = Trial(
        reference=str(own), train={}, options=options, folder=folder, gate=judged
    ).findings()
    declaration = next(findings)
    assert declaration.state == OK, declaration.problems
    return next(findings)
