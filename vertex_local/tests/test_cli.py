"""`vertex-local` as a command."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import vertex_local
from vertex_local import server
from vertex_local.cli import main


def test_the_version_is_its_own_and_printed_without_imports():
    code = """
import sys
from vertex_local.cli import main
try:
    main(["--version"])
finally:
    assert not {"kfp", "google.protobuf", "werkzeug"} & set(sys.modules)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[0].split()[1:] == [vertex_local.__version__]


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_a_number_of_parallel_tasks_that_is_none_is_refused(text, capsys, tmp_path):
    with pytest.raises(SystemExit) as error:
        main(["serve", "--root", str(tmp_path), f"--parallel={text}"])
    assert error.value.code == 2
    words = f"argument --parallel: '{text}' is not a number of tasks; allowed: 1 and more"
    assert words in capsys.readouterr().err


def test_if_the_default_port_is_in_use_the_log_names_another(listener, monkeypatch, caplog):
    monkeypatch.setattr(server, "DEFAULT_PORT", listener.getsockname()[1])
    with closing(server._listen(server.ServeOptions(root=Path()))) as other:
        for one, words in ((listener, "Port {} is in use"), (other, "name the port {} of this")):
            assert words.format(one.getsockname()[1]) in caplog.text
