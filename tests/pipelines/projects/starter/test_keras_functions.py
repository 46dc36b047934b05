"""The function of a script that `new --keras` takes, and what is said where there is none."""

import ast

import pytest

from components.prepare_examples.errors import DataError
from pipelines.projects.starter.keras_script import Script, read_script
from pipelines.projects.starter.tables import start_table
from trainer.errors import first_line

pytestmark = pytest.mark.fast
SUBCLASS = """
import keras

class Base(keras.Model):
    pass

class Net(Base):
    pass

def make_net():
    return Net()
"""
SIZES = """
import keras

HEIGHT = WIDTH = None
HEIGHT, WIDTH = 48, 32
IMAGE_SIZE = (HEIGHT, WIDTH)

def build():
    return keras.Sequential([keras.Input({shape}), keras.layers.Dense(3)])
"""
IN_A_CLASS = """
import keras

class Factory:
    def make(self):
        return keras.Sequential([])
"""


@pytest.fixture
def read(tmp_path):
    def write_and_read(text):
        path = tmp_path / "net.py"
        path.write_text(text)
        return read_script(path)

    return write_and_read


def test_a_function_that_returns_a_subclass_of_a_model_is_taken(read):
    script = read(SUBCLASS)
    assert isinstance(script, Script)
    assert (script.function.name, script.notes) == ("make_net", [])


@pytest.mark.parametrize(
    "shape", ["(48, 32, 3)", "(HEIGHT, WIDTH, 3)", "IMAGE_SIZE + (3,)", "shape=(*IMAGE_SIZE, 3)"]
)
def test_sizes_of_images_may_be_variables(read, shape):
    assert read(SIZES.replace("{shape}", shape)).shape == (48, 32, 3)


def test_of_two_functions_the_other_one_is_named(read):
    [note] = read(SUBCLASS + "\ndef other_model():\n    return Net()\n").notes
    assert "other_model is taken, not make_net" in note


def test_a_function_inside_a_class_is_named(read):
    with pytest.raises(DataError, match=r"net\.py:5: make is inside another function or a class"):
        read(IN_A_CLASS)


def test_numbers_that_are_never_missing_are_one_input_each(read, tmp_path):
    rows = [f"{k * 0.7:.1f},{'' if k == 5 else k % 7},{'xy'[k % 2]}" for k in range(100)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,kind", *rows]) + "\n")
    script = read(SUBCLASS)
    start = start_table([str(tmp_path / "rows.csv")], "kind", script=script)
    required = {
        ast.literal_eval(call.args[0]): "is_required" in {one.arg for one in call.keywords}
        for call in ast.walk(ast.parse(start.workload))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Number"
    }
    assert required == {"a": True, "b": False}
    assert any(note.startswith("never missing: a; so is_required=True") for note in start.notes)


def test_an_error_of_keras_is_its_reason():
    preamble = "Exception encountered when calling Sequential.call().\n\n"
    reason = "\x1b[1mexpected shape=(None, 5), found shape=(None, 4)\x1b[0m\n\nArguments received"
    error = ValueError(f"{preamble}{reason} by Sequential.call():\n  • inputs=tf.Tensor")
    assert first_line(error) == "expected shape=(None, 5), found shape=(None, 4)"
    assert first_line(ValueError("")) == "ValueError"
