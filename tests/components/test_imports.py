"""What is imported only where it is used: packages that are slow to import, other commands."""

import subprocess
import sys
from collections.abc import Iterable

HEAVY = {"tensorflow", "keras", "apache_beam", "google.cloud.aiplatform"}
SLOW_TO_START = {
    *HEAVY,
    "numpy",
    "pyarrow",
    "yaml",
    "kfp",
    "google.auth",
    "google.protobuf",
    "rich",
}
# Light modules, each with packages that it does not import either.
LIGHT_MODULES = {
    "components.endpoint.predict.step": set(),
    "components.evaluate.step": set(),
    "components.prepare_examples.cli": set(),
    "components.prepare_examples.fingerprint": {"google.cloud.storage", "kfp", "pyarrow"},
    "components.prepare_examples.images.shards": set(),
    "components.prepare_examples.raw_data.fetch": set(),
    "components.start.comparison": set(),
    "components.start.step": set(),
    "trainer.cluster.roles": SLOW_TO_START,
    "trainer.workloads": {"pyarrow"},
}
MODELS, RUNS = "pipelines.command.serving.models", "pipelines.command.running.runs"
# Light commands, each with modules of others.
LIGHT_COMMANDS = {
    "--help": {"requests", MODELS, "pipelines.places"},
    "modles list": {"requests", MODELS, "pipelines.places"},
    "models list": {RUNS, "pipelines.serving.upload"},
    "models rollback m": {RUNS, "pipelines.serving.upload"},
    "runs list": {MODELS, "pipelines.command.running.submit"},
    "runs cancel r": {MODELS, "pipelines.command.running.submit"},
    "jobs list": {MODELS, "pipelines.command.training.jobs_submit"},
    "endpoints list": {RUNS, "pipelines.command.serving.predict"},
}
PROGRAM = """
import contextlib, importlib, os, sys
from pipelines.cli import parse
for word in sys.argv[1:]:
    if not (child := os.fork()):
        try:
            with contextlib.redirect_stdout(sys.stderr):
                importlib.import_module(word) if "." in word else parse(word.split())
        finally:
            print(*sys.modules, flush=True)
            os._exit(0)
    os.waitpid(child, 0)
"""


def loaded(words: Iterable[str]) -> dict[str, set[str]]:
    """Return the modules that are loaded after the import of a module, or a command."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = done.stdout.splitlines()
    return {word: set(line.split()) for word, line in zip(words, lines, strict=True)}


def test_nothing_heavy_is_imported_before_it_is_needed():
    modules = loaded(LIGHT_MODULES)
    for name, others in LIGHT_MODULES.items():
        assert name in modules[name]
        assert (HEAVY | others).isdisjoint(modules[name]), name


def test_a_light_command_imports_only_what_it_needs():
    modules = loaded(LIGHT_COMMANDS)
    for line, others in LIGHT_COMMANDS.items():
        assert (SLOW_TO_START | others).isdisjoint(modules[line]), line
