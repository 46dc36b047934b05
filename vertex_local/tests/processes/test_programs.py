import pytest

from vertex_local.processes.forking import Preloaded
from vertex_local.processes.programs import KFP_MODULE, Program

pytestmark = pytest.mark.fast

NOTHING = {"modules": frozenset(), "signatures": {}, "fds": frozenset(), "handlers": {}}

SCRIPT = (
    'program_path=$(mktemp -d)\n\nprintf "%s" "$0" > "$program_path/ephemeral_component.py"\n'
    "_KFP_RUNTIME=true python3 -m kfp.dsl.executor_main      --component_module_path      "
    '"$program_path/ephemeral_component.py"       "$@"\n'
)


def test_a_module_command_is_parsed():
    program = Program.of(["python", "-m", "trainer.task", "--steps", "5"])
    assert program == Program("trainer.task", ("--steps", "5"))


def test_the_command_of_a_kfp_component_is_parsed():
    program = Program.of(["sh", "-ec", SCRIPT, "def f(): ...", "--function_to_execute", "f"])
    assert program == Program(KFP_MODULE, ("--function_to_execute", "f"), "def f(): ...")


@pytest.mark.parametrize(
    "command",
    [
        ["python", "-c", "print(1)"],
        ["python", "-u", "-m", "trainer.task"],
        ["python", "-m"],
        ["/usr/bin/python3.11", "-m", "trainer.task"],
        ["taskset", "-c", "0", "python", "-m", "trainer.task"],
        ["sh", "-ec", f"echo first; {SCRIPT}", "source"],
        ["sh", "-c", "pip install x", "source"],
    ],
)
def test_other_commands_are_not_parsed(command):
    assert Program.of(command) is None


@pytest.mark.parametrize(
    ("env", "can_run"),
    [
        ({"LD_PRELOAD": "a.so"}, True),
        ({"LD_PRELOAD": "a.so", "TF_CONFIG": "{}", "AIP_MODEL_DIR": "/m"}, True),
        ({"LD_PRELOAD": "b.so"}, False),
        ({}, False),
        ({"LD_PRELOAD": "a.so", "XLA_FLAGS": "--x"}, False),
    ],
    ids=["same", "others-differ", "another-value", "missing", "one-more"],
)
def test_variables_read_at_import_must_be_equal(tmp_path, env, can_run):
    preloaded = Preloaded(**NOTHING, env={"LD_PRELOAD": "a.so"})
    assert preloaded.can_run(env, str(tmp_path)) is can_run


def test_a_missing_folder_needs_a_new_process(tmp_path):
    preloaded = Preloaded(**NOTHING, env={})
    assert not preloaded.can_run({}, str(tmp_path / "nowhere"))
