"""The function of a script that `new --keras` takes, and what is said where there is none."""

import pytest

from trainer.runtime.tensorflow_logs import import_tensorflow

import_tensorflow()

from pipelines.projects.scripts.recorder import Recording  # noqa: E402
from pipelines.projects.scripts.script_text import ScriptFault, read_script  # noqa: E402
from pipelines.projects.scripts.written_function import WrittenFunction  # noqa: E402
from trainer.errors import first_line  # noqa: E402

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

def build(num_classes):
    return keras.Sequential([keras.Input({shape}), keras.layers.Dense(num_classes)])
"""
USES = """
import keras

METRICS = [keras.metrics.AUC(name="prc", curve="PR")]
UNITS = 7

def layer(units):
    return keras.layers.Dense(units)

def build_net(units=UNITS, *, rate: float = 0.1, name=None):
    model = keras.Sequential([keras.Input((4,)), layer(units)])
    model.compile(keras.optimizers.SGD(rate), "mse", metrics=METRICS)
    return model

model = build_net()
"""


@pytest.fixture
def take(tmp_path):
    def write_and_take(text, *, columns=None, classes=(), **recorded):
        (tmp_path / "net.py").write_text(text)
        script = read_script(tmp_path / "net.py")
        variables = {}
        exec(compile(script.tree, "net.py", "exec"), variables)
        recording = Recording(variables=variables, **recorded)
        return WrittenFunction(script, recording, columns or {}, classes).take_over(tmp_path)

    return write_and_take


def test_a_function_that_returns_a_subclass_of_a_model_is_taken(take):
    result = take(SUBCLASS)
    assert result["model"][0] == "own = make_net()"
    assert (result["faults"], result["notes"]) == ([], [])
    heads = [one.splitlines()[1] for one in result["definitions"]]
    assert heads == ["class Base(keras.Model):", "class Net(Base):", "def make_net():"]


@pytest.mark.parametrize(
    "shape", ["(48, 32, 3)", "(HEIGHT, WIDTH, 3)", "IMAGE_SIZE + (3,)", "shape=(*IMAGE_SIZE, 3)"]
)
def test_sizes_of_images_may_be_variables(take, shape):
    result = take(SIZES.replace("{shape}", shape), classes=("cats", "dogs"))
    assert (result["size"], result["channels"]) == ((48, 32), 3)
    assert result["model"][0] == "own = build(num_classes=len(labels))"


def test_a_function_comes_with_all_that_it_uses_and_its_defaults_are_settings(take):
    result = take(USES)
    assert result["settings"] == ", units=7, rate=0.1, name=None"
    assert [one.splitlines()[-1] for one in result["definitions"]] == [
        "UNITS = 7",
        "    return keras.layers.Dense(units)",
        'METRICS = [keras.metrics.AUC(name="prc", curve="PR")]',
        "    return model",
    ]


def test_what_compile_says_outside_of_the_function_is_taken(take):
    settings = {"optimizer": "sgd", "loss": "mse", "metrics": ["mae"]}
    result = take(SUBCLASS, compiled=(settings, 14))
    assert result["end"][0] == (
        'built.compile(optimizer="sgd", loss="mse", metrics=["mae"])  # line 14'
    )


def test_weights_of_classes_are_those_of_the_sorted_values(take):
    fit = {"class_weight": {0: 1.0, 1: 2.5}, "epochs": 3}
    result = take(SUBCLASS, classes=("no", "yes"), fit=fit, line=9)
    assert result["class_weights"] == [["no", 1.0], ["yes", 2.5]]
    assert result["train"] == {"epochs": 3, "batch_size": 32}
    assert result["notes"] == [
        "class_weight of fit in line 9: 0 is no, 1 is yes, as they are sorted; if that is wrong,"
        " change class_weights in workload.py"
    ]


def test_of_two_functions_the_other_one_is_named(take):
    [note] = take(SUBCLASS + "\ndef other_model():\n    return Net()\n")["notes"]
    assert "other_model is taken, not make_net (line 10)" in note


FAULTS = {
    "argument": (
        SUBCLASS.replace("make_net()", "make_net(units)"),
        (10, "make_net needs the argument 'units': give it a default"),
    ),
    "KerasTuner": (
        SUBCLASS.replace("make_net()", "make_net(hp)"),
        (10, "make_net needs the argument 'hp': give it a default, as to units=32, which"),
    ),
    "method": (
        SUBCLASS.replace("def make", "class Factory:\n  def make").replace(
            "    return", "      return"
        ),
        (11, "make_net is inside another function or a class"),
    ),
    "name": (SUBCLASS.replace("make_net", "model"), (10, "the function model has the name of a")),
    "variable": (
        SUBCLASS.replace("return Net()", "return Net(DATA)") + "DATA = object()\n",
        (12, "DATA is used by a function that is taken over, but object"),
    ),
    "none": (SUBCLASS.replace("return Net()", "Net()"), (0, "it ended without a call of fit")),
}


@pytest.mark.parametrize(("text", "expected"), FAULTS.values(), ids=FAULTS)
def test_a_function_that_cannot_be_used_is_named_with_its_line(take, text, expected):
    fault = ScriptFault("it ended without a call of fit")
    if "Net(DATA)" in text:
        text = text.replace("return Net(", "return Net() or print(")
    found = take(text, fault=fault)["faults"][0]
    assert found["line"] == expected[0]
    assert found["message"].startswith(expected[1])


def test_an_error_of_keras_is_its_reason():
    preamble = "Exception encountered when calling Sequential.call().\n\n"
    reason = "\x1b[1mexpected shape=(None, 5), found shape=(None, 4)\x1b[0m\n\nArguments received"
    error = ValueError(f"{preamble}{reason} by Sequential.call():\n  • inputs=tf.Tensor")
    assert first_line(error) == "expected shape=(None, 5), found shape=(None, 4)"
    assert first_line(ValueError("")) == "ValueError"
