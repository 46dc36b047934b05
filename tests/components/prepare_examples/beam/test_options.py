import logging
import os
from collections.abc import Iterable

import pytest

from components.errors import errors_in_one_line
from components.prepare_examples.beam.options import num_processes, run_pipeline
from components.prepare_examples.errors import DataError
from trainer.errors import ConfigError
from trainer.runtime.cores import machine_cores


@pytest.mark.parametrize(
    "error",
    [
        DataError("data.csv is not whole;\nget it again"),
        PermissionError(13, "no access", "data.csv"),
        ConfigError("files is 'data.csv'"),
    ],
    ids=["data", "system", "setting"],
)
def test_a_step_exits_with_one_line_despite_beams_traceback(tmp_path, caplog, error):
    def work(_: int) -> dict:
        raise error

    caplog.set_level(logging.INFO)
    with pytest.raises(SystemExit) as ended, errors_in_one_line():
        run_pipeline([1], work, lambda _: {}, flags=["--direct_num_workers=1"], folder=tmp_path)

    said = str(ended.value.code)
    assert said.startswith("error: ")
    assert "data.csv" in said
    assert "while running" not in said
    assert "\n" not in said
    assert [record for record in caplog.records if record.exc_info] == []


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), machine_cores()),
        (("--direct_num_workers=1",), 1),
        (("--direct_num_workers=3", "--direct_running_mode=multi_threading"), 3),
        (("--direct_num_workers=3", "--direct_running_mode=multi_processing"), 1),
        (("--runner=PortableRunner",), 1),
    ],
)
def test_processes_help_the_workers_of_this_process(flags, expected):
    assert num_processes(flags) == expected


@pytest.mark.parametrize("flags", [(), ("--direct_num_workers=3",)], ids=["default", "three"])
@pytest.mark.parametrize("elements", [[3, 1, 2], [3, 1, 2, 4]], ids=["without Beam", "with Beam"])
def test_processes_work_and_their_results_are_those_of_this_process(tmp_path, flags, elements):
    here = run_pipeline(
        elements, one_with_pid, pids_of, flags=flags, folder=tmp_path, in_processes=False
    )
    found = run_pipeline(elements, one_with_pid, pids_of, flags=flags, folder=tmp_path)
    assert here == {"numbers": sorted(elements), "pids": [str(os.getpid())]}
    assert found["numbers"] == sorted(elements)
    assert str(os.getpid()) not in found["pids"]


def fail_for_two(number: int) -> dict:
    if number >= 2:
        raise DataError(f"part {number} is damaged")
    return one_with_pid(number)


def one_with_pid(number: int) -> dict:
    return {"number": number, "pid": str(os.getpid())}


def pids_of(results: Iterable[dict]) -> dict:
    every = list(results)
    numbers = sorted(one["number"] for one in every)
    return {"numbers": numbers, "pids": sorted({one["pid"] for one in every})}


def test_the_first_error_of_the_processes_is_raised(tmp_path):
    with pytest.raises(DataError, match=r"^part 2 is damaged$"):
        run_pipeline([0, 1, 2, 3], fail_for_two, pids_of, flags=(), folder=tmp_path)
