import pytest

import trainyard
from tools.api_reference import EXAMPLES, PAGE, SECTIONS, arguments, meanings, render

pytestmark = pytest.mark.fast

NAMES = [name for names in SECTIONS.values() for name in names]


def test_the_reference_is_that_of_the_docstrings():
    assert PAGE.read_text() == render(), "run: python -m tools.api_reference"


def test_every_declaration_is_in_the_reference():
    bases = {"BUILT_IN", "Feature", "Features", "Label", "Workload"}
    errors = {"RunError", "WorkloadError"}
    assert set(NAMES) == set(dir(trainyard)) - bases - errors


@pytest.mark.parametrize("name", NAMES)
def test_every_argument_has_a_meaning(name):
    thing = getattr(trainyard, name)
    missing = {one.name for one in arguments(thing)} - set(meanings(thing))
    assert not missing or name == "Run"


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_a_declaration(name):
    names = {key: getattr(trainyard, key) for key in dir(trainyard)}
    assert isinstance(eval(EXAMPLES[name], names), getattr(trainyard, name))
