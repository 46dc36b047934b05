"""Count the calls of Google's SDK that are right, by flow.

Usage: python -m tools.flows [NAME …]

Each flow has a service of its own, and runs as `vertex-local exec` runs other people's programs.
The flows are those of Google's system tests (tests/system/aiplatform of python-aiplatform).
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tools.flows.calls import Call, Calls
from tools.flows.weights import notebooks_by_service
from vertex_local import testing
from vertex_local.machine.files import last_lines

FLOWS = ["pipeline_jobs", "schedules", "models", "endpoints", "custom_jobs", "tuning_jobs"]
FLOWS += ["training_pipelines"]
SPEED = "14400"  # an hour in a quarter of a second, for the schedule that is waited for
RUN = "from tools.flows.__main__ import run; run()"


def calls_of(flow: str, work: Path) -> list[Call]:
    """Run a flow against a new service; return its calls."""
    options = ["--buckets", str(work / "buckets"), "--clock-speed", SPEED]
    (work / "buckets" / "staging").mkdir(parents=True)
    with testing.running(*options, root=work / "vertex") as service:
        words = [sys.executable, "-c", RUN, flow, str(work / "calls.json")]
        program = [
            sys.executable,
            "-m",
            "vertex_local.cli",
            "exec",
            "--root",
            str(service.root),
            "--",
        ]
        with (work / "sdk.log").open("w") as log:
            code = subprocess.run(
                [*program, *words], cwd=work, stdout=log, stderr=log, check=False
            ).returncode
    if code:
        sys.exit(f"{flow} ended with code {code}:\n{last_lines(work / 'sdk.log')}")
    return [Call(**call) for call in json.loads((work / "calls.json").read_text())]


def run() -> None:
    """Run the flow that the command line names; write its calls."""
    flow, target = sys.argv[1:]
    from google.api_core.future import polling
    from google.cloud import aiplatform
    from google.cloud.aiplatform import jobs, pipeline_job_schedules, pipeline_jobs, training_jobs

    from tools.flows import jobs as job_flows
    from tools.flows import models, pipelines

    polling.DEFAULT_POLLING._initial = polling.DEFAULT_POLLING._maximum = 0.1
    for module in (jobs, pipeline_jobs, training_jobs, pipeline_job_schedules):
        for name in (
            "_JOB_WAIT_TIME",
            "_PIPELINE_WAIT_TIME",
            "_LOG_WAIT_TIME",
            "_SCHEDULE_WAIT_TIME",
        ):
            if hasattr(module, name):
                setattr(module, name, 0.2)
    aiplatform.init(project="flows", location="us-central1", staging_bucket="gs://staging")
    calls = Calls(flow)
    [function] = (getattr(m, flow) for m in (pipelines, models, job_flows) if hasattr(m, flow))
    function(calls)
    Path(target).write_text(json.dumps([asdict(call) for call in calls.all]))


def main() -> None:
    """Run the flows; print the wrong calls and the counts."""
    parser = argparse.ArgumentParser(prog="python -m tools.flows")
    parser.add_argument("flows", nargs="*", help=f"default: {' '.join(FLOWS)}")
    text = "clone of vertex-ai-samples, to weigh the flows by the notebooks that use their service"
    parser.add_argument("--samples", type=Path, help=text)
    arguments = parser.parse_intermixed_args()
    by_flow = {}
    for flow in arguments.flows or FLOWS:
        with tempfile.TemporaryDirectory(prefix=f"{flow}-") as folder:
            by_flow[flow] = calls_of(flow, Path(folder))
        wrong = [call for call in by_flow[flow] if call.reason]
        for call in wrong:
            print(f"  {call.name}: {call.reason[:150]}")
        print(
            f"{flow}: {len(by_flow[flow]) - len(wrong)} of {len(by_flow[flow])} right", flush=True
        )
    right = [not call.reason for calls in by_flow.values() for call in calls]
    print(f"{sum(right)} of {len(right)} calls are right ({sum(right) / len(right):.1%})")
    if arguments.samples:
        print_weighted(by_flow, arguments.samples)


def print_weighted(by_flow: dict[str, list[Call]], samples: Path) -> None:
    """Print the share of right calls, weighted by notebooks; services without a flow have none."""
    weights = notebooks_by_service(samples)
    shares = dict.fromkeys(weights, 0.0)
    for flow, calls in by_flow.items():
        shares[flow] = sum(not call.reason for call in calls) / len(calls)
    for service, weight in weights.most_common():
        print(f"  {service}: {weight} notebooks, {shares[service]:.0%}")
    covered = sum(weights[service] * share for service, share in shares.items())
    print(f"weighted by notebooks: {covered / weights.total():.1%}")


if __name__ == "__main__":
    main()
