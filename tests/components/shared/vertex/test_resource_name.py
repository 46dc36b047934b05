import pytest

from components.shared.vertex.resource_name import ResourceName

pytestmark = pytest.mark.fast

MODEL = "projects/p/locations/l/models/m"


def test_a_name_is_split_into_its_parts():
    assert ResourceName.from_name(f"{MODEL}@2") == ResourceName("p", "l", "models", "m", "2")


@pytest.mark.parametrize(
    "name",
    ["projects/p/locations/-/endpoints/5", "publishers/google/models/g@1", f"{MODEL}@default"],
)
def test_a_name_is_the_same_again_when_it_is_put_together(name):
    assert ResourceName.from_name(name).name == name


def test_the_version_of_a_name_can_be_set_and_removed():
    second = ResourceName.from_name(f"{MODEL}@1").with_version(2)

    assert (second.name, str(second)) == (f"{MODEL}@2", "m@2")
    assert second.unversioned == MODEL


@pytest.mark.parametrize(
    "name", ["", "m", "models/m", "projects/p/locations/l/models", f"{MODEL}@", f"{MODEL}/m"]
)
def test_a_malformed_name_is_refused_with_the_name(name):
    with pytest.raises(ValueError, match=f"'{name}'.*projects/PROJECT"):
        ResourceName.from_name(name)


def test_a_name_without_a_version_names_no_version():
    with pytest.raises(ValueError, match=f"'{MODEL}'.*@VERSION"):
        ResourceName.from_version_name(MODEL)
