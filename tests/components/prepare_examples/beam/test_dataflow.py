"""The request that submits a preparation to Dataflow, against a golden one.

Beam's own runner makes it; only what it would send is kept here instead.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from components.prepare_examples.cli import main

GOLDEN = Path(__file__).with_name("golden") / "dataflow_job.json"
UPDATE = f"to accept: remove {GOLDEN.name} and run the test again, which writes it"
FLAGS = ("--project=my-project", "--region=europe-west4", "--sdk_container_image=trainyard:1")
PLACE = ("--temp_location=gs://bucket/dataflow", "--job_name=taxi", "--no_auth")
SENT = "the request is kept"
# Not of the machine, the moment or Beam's version.
OPTIONS = ("dataflow_endpoint", "direct_num_workers", "project", "region", "runner", "streaming")
OPTIONS += ("sdk_container_image", "save_main_session", "setup_file", "experiments")


@pytest.fixture
def sent(monkeypatch) -> dict[str, Any]:
    """Keep what Beam would upload, by file name, and the job's request."""
    from apache_beam.options.pipeline_options import GoogleCloudOptions
    from apache_beam.runners.dataflow.internal import apiclient
    from apache_beam.utils import retry

    found: dict[str, Any] = {}

    def keep_file(client, folder, name, stream, *_) -> None:
        found[name] = stream.read()

    def keep_request(client, request) -> None:
        found["request"] = request
        raise retry.PermanentException(SENT)

    policy = "_warn_if_soft_delete_policy_enabled"  # asks the bucket for it
    monkeypatch.setattr(GoogleCloudOptions, policy, lambda *_: None)
    monkeypatch.setattr(apiclient.DataflowApplicationClient, "stage_file", keep_file)
    monkeypatch.setattr(apiclient.dataflow.JobsV1Beta3Client, "create_job", keep_request)
    return found


def test_the_command_sends_the_golden_request(tmp_path, taxi_rows, write_csv, sent):
    path = write_csv(taxi_rows(100))
    command = ["--workload=taxi", "--files", str(path), "--output-dir", str(tmp_path / "out")]
    with pytest.raises(Exception, match=SENT):
        main([*command, "--runner=DataflowRunner", "--", *FLAGS, *PLACE])
    found = {
        "job": job_of(sent["request"]),
        "graph": graph_of(sent["pipeline.pb"]),
        "uploads": sorted(name for name in sent if name != "request"),
    }
    if not GOLDEN.exists():
        GOLDEN.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")
        pytest.fail(f"{GOLDEN} was written")
    assert found == json.loads(GOLDEN.read_text()), UPDATE
    assert not (tmp_path / "out").exists()


def job_of(request: Any) -> dict[str, Any]:
    """Return the request without what differs between machines, moments and versions of Beam."""
    from google.protobuf import json_format

    found = json_format.MessageToDict(type(request).pb(request))
    job = found["job"]
    del job["clientRequestId"]
    environment = job["environment"]
    options = environment["sdkPipelineOptions"]["options"]
    environment["sdkPipelineOptions"] = {name: options.get(name) for name in OPTIONS}
    del environment["userAgent"]
    for pool in environment["workerPools"]:
        for image in pool["sdkHarnessContainerImages"]:
            del image["capabilities"]
    text = re.sub(r"taxi\.\d+\.\d+", "taxi.TIME", json.dumps(found))
    return json.loads(text)


def graph_of(pipeline: bytes) -> dict[str, Any]:
    """Return the steps with their kinds and inputs, and the workers' images."""
    from apache_beam.portability.api import beam_runner_api_pb2 as api

    components = api.Pipeline.FromString(pipeline).components
    for step in components.transforms.values():
        step.unique_name = re.sub(r"<lambda at .*>", "<lambda>", step.unique_name)
    producers = {
        output: step.unique_name
        for step in components.transforms.values()
        if not step.subtransforms
        for output in step.outputs.values()
    }
    return {
        "steps": {
            step.unique_name: {
                "urn": step.spec.urn,
                "inputs": [producers[name] for name in step.inputs.values()],
            }
            for step in components.transforms.values()
            if not step.subtransforms
        },
        "images": [
            api.DockerPayload.FromString(environment.payload).container_image
            for environment in components.environments.values()
        ],
    }
