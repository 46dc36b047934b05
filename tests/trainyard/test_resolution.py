import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("trainer", "components", "pipelines")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's project with packages that have the names of ours."""
    for name in NAMES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
        (tmp_path / name / "own.py").write_text("")
    return tmp_path


def python(program: str, folder: Path) -> str:
    """Return the output of a program in a folder, which is the first of sys.path."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.append({str(ROOT)!r})\n{program}"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


def test_the_name_imports_nothing_before_it_is_used(tmp_path):
    program = "import trainyard, sys; print([m for m in ('numpy', 'trainer') if m in sys.modules])"
    assert python(program, tmp_path) == "[]\n"


def test_declarations_need_no_tensorflow(tmp_path):
    program = "from trainyard import *; from trainyard import Table, Number, run, check, submit\n"
    program += "print([m for m in ('tensorflow', 'keras') if m in sys.modules])"
    assert python(program, tmp_path) == "[]\n"


def test_our_packages_come_before_those_of_the_working_folder(project):
    program = "import trainyard, trainer, components, pipelines\n"
    program += "print(trainer.__path__[0], components.__path__[0], pipelines.__path__[0])"
    assert python(program, project).split() == [str(ROOT / name) for name in NAMES]


def test_a_package_that_was_imported_before_is_named_with_what_to_do(project):
    output = python("import trainer, trainyard", project)
    assert output.endswith(
        f"ImportError: 'trainer' is imported already, from {project}/trainer, and hides"
        " Trainyard's: rename it, or import trainyard in a process of its own\n"
    )


def test_a_users_module_that_ours_hide_is_named_with_what_to_do(project):
    output = python("import trainyard, trainer.own", project)
    assert f"'trainer' is Trainyard's, and hides {project}/trainer; rename yours" in output


@pytest.mark.fast
def test_an_unknown_name_is_an_attribute_error():
    import trainyard

    with pytest.raises(AttributeError, match="'trainyard' has no attribute 'Tabel'"):
        _ = trainyard.Tabel
    assert {"Table", "run", "check", "submit", "RunError"} <= set(dir(trainyard))


@pytest.mark.fast
def test_children_find_ours_only_if_pythonpath_would_hide_them(project, monkeypatch):
    from trainyard import resolution

    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    with resolution.for_children():
        assert os.environ["PYTHONPATH"] == "/nowhere"
    monkeypatch.setenv("PYTHONPATH", str(project))
    with resolution.for_children():
        assert os.environ["PYTHONPATH"] == f"{ROOT}{os.pathsep}{project}"
    assert os.environ["PYTHONPATH"] == str(project)
