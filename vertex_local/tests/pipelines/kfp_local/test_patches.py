from types import SimpleNamespace

import pytest

from vertex_local.pipelines import placeholders
from vertex_local.pipelines.kfp_local.compatibility import UnsupportedKfpError, replace

pytestmark = pytest.mark.fast

JOB = {"name": "projects/p/locations/l/pipelineJobs/run-1", "createTime": "2026-01-31T12:00:00Z"}


def module(**attributes) -> SimpleNamespace:
    return SimpleNamespace(__name__="kfp.local.some_module", **attributes)


def test_a_kfp_without_the_patched_function_is_refused():
    with pytest.raises(UnsupportedKfpError, match=r"some_module\.run is missing.*kfp==2\.17\.0"):
        replace(module(), "run", lambda task_name: None)


def test_a_kfp_whose_function_takes_other_parameters_is_refused():
    with pytest.raises(UnsupportedKfpError, match=r"some_module\.run no longer takes task_name"):
        replace(module(run=lambda name: None), "run", lambda task_name, **others: None)


def test_a_function_is_replaced():
    owner = module(run=lambda task_name, extra: "old")
    replace(owner, "run", lambda task_name, **others: "new")
    assert owner.run("a") == "new"


def test_whole_numbers_stay_whole_in_structures():
    mangled = {"workers": 2.0, "rate": 0.5, "list": [1.0, {"a": 3.0}], "text": "1.0", "yes": True}
    restored = {"workers": 2, "rate": 0.5, "list": [1, {"a": 3}], "text": "1.0", "yes": True}
    assert repr(placeholders.whole(mangled)) == repr(restored)


def test_only_placeholders_of_the_run_are_filled():
    values = placeholders.of_job(JOB)
    text = "{{$.pipeline_google_cloud_project_id}}/{{$.pipeline_job_name}}{{$.pipeline_network}}"
    assert placeholders.fill(text, values) == "p/run-1"
    assert placeholders.fill("{{$.inputs.parameters['a']}}", values) == (
        "{{$.inputs.parameters['a']}}"
    )
