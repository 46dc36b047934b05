"""requirements.txt of a project against what is installed."""

from importlib.metadata import version

import pytest

from pipelines.projects.requirements import check_requirements, read_requirements
from trainer.errors import ConfigError

pytestmark = pytest.mark.fast


def write(folder, text):
    path = folder / "requirements.txt"
    path.write_text(text)
    return path


def test_installed_requirements_pass(tmp_path):
    (tmp_path / "more.txt").write_text("NumPy\n")
    text = f"""# comment
    numpy>=1.0  # comment
    keras \\
      >=3 \\
      --hash=sha256:00
    -r more.txt
    --index-url https://example.org/simple
    nowhere-to-be-found; python_version < "3"
    tensorflow=={version("tensorflow")}
    """
    path = write(tmp_path, text)
    check_requirements(path)
    names = [one.name for one in read_requirements(path)]
    assert names == ["numpy", "keras", "NumPy", "nowhere-to-be-found", "tensorflow"]


def test_missing_and_other_versions_are_named_with_the_command(tmp_path):
    path = write(tmp_path, "numpy\nno-such-package>=2\nkeras==1.0\nnamed @ https://x.org/a.whl\n")
    with pytest.raises(ConfigError) as caught:
        check_requirements(path)
    message = str(caught.value)
    assert "no-such-package>=2 (not installed)" in message
    assert f"keras==1.0 ({version('keras')} is installed)" in message
    assert "named (not installed)" in message
    assert "numpy" not in message
    assert message.endswith(f"-m pip install -r {path}")
    assert "\n" not in message


@pytest.mark.parametrize(
    "line",
    [
        *("-e git+https://x.org/a.git", "--editable=./a", "-e .", "./local", "../a", "/a/b.whl"),
        *("git+https://x.org/a.git#egg=a", "https://x.org/a.whl", "a-1.0-py3-none-any.whl"),
    ],
)
def test_a_requirement_without_a_name_is_refused(tmp_path, line):
    with pytest.raises(ConfigError, match=r"requirements\.txt, line 2: .*write NAME @ git"):
        check_requirements(write(tmp_path, f"numpy\n{line}\n"))


def test_a_line_that_is_no_requirement_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"requirements\.txt, line 2: 'a b c'"):
        check_requirements(write(tmp_path, "numpy\na b c\n"))
