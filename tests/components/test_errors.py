import pytest

from components.errors import StepError, errors_in_one_line
from components.shared.vertex.errors import VertexError
from trainer.errors import ClusterError, ConfigError, InputError

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    "error",
    [
        StepError("thresholds is\n'x'"),
        InputError("shard 3 is damaged"),
        ConfigError("batch_size is 0"),
        PermissionError(13, "no access", "data.csv"),
        TimeoutError("operations/5 was not done"),
        VertexError(code=403, status="PERMISSION_DENIED", message="no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_for_the_user_ends_the_step_with_one_line(error):
    with pytest.raises(SystemExit) as ended, errors_in_one_line():
        raise error
    assert ended.value.code == "error: " + str(error).replace("\n", " ")


def test_all_problems_of_a_cluster_are_on_the_line():
    with pytest.raises(SystemExit) as ended, errors_in_one_line():
        raise ClusterError("workers is -1", "machine is ''")
    assert ended.value.code == "error: workers is -1; machine is ''"


def test_any_other_error_keeps_its_traceback():
    with pytest.raises(KeyError), errors_in_one_line():
        raise KeyError("x")
