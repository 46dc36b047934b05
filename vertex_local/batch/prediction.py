"""Driver of a batch prediction: a prediction server of the model, fed with the rows of files."""

import http.client
import threading
import time
from collections import Counter
from functools import partial
from itertools import islice
from typing import Any

import orjson

from vertex_local import Json
from vertex_local.api.resource_names import ResourcePath
from vertex_local.api.service import Service
from vertex_local.batch.instances import BadRow, find_files, read_instances
from vertex_local.endpoints import deployments, server_requests
from vertex_local.endpoints.deployed_model import ServingProcess
from vertex_local.errors import ApiError, failed_precondition
from vertex_local.machine.files import local_path
from vertex_local.processes.supervisor import INTERRUPTED

FOLDER = "batch"  # below the service's root
SERVER = "workerpool0-0"  # the name of its server, and of its log, as of a job's one replica
# ManualBatchTuningParameters: "The default value is 64."
DEFAULT_BATCH_SIZE = 64
NUM_SENDS = 3
REQUEST_TIMEOUT_SECONDS = 600.0
RETRY_SECONDS = 1.0
HTTP_REFUSED = 4  # the first digit of the status
FAILS = "Post request fails. Cannot get predictions. Error: "


class BatchPrediction:
    """Driver of a batch prediction, with the interface of a group of processes.

    All its state is in the record: the next service begins anew and writes the same files.
    """

    def __init__(self, service: Service, name: str) -> None:
        self._service = service
        self._name = name
        self._job = job = service.store.get(name)
        self._stop = threading.Event()
        self._key = deployments.key_of(name, "server")
        job_id = ResourcePath.from_name(name).id
        deployed = {**job, "id": job_id, "model": job["model"].partition("@")[0]}
        self._server = ServingProcess(
            lambda: deployments.spec_of(service, name, deployed),
            folder=service.root / FOLDER / job_id / SERVER,
            title=f"The prediction server of {name}",
            launch=service.launch,
        )

    def request_stop(self, grace_seconds: float) -> None:
        """Request the end of the job, without waiting for it."""
        self._stop.set()
        stop = partial(self._server.stop, drain_seconds=0)  # the request in flight fails
        threading.Thread(target=stop, name=f"stop {self._name}", daemon=True).start()

    def wait(self) -> Json:
        """Predict all rows; return the last state and its message."""
        self._service.running[self._key] = self._server  # ended with those of endpoints
        try:
            self._server.start(interruption=self._interruption)
            self._predict()
        except (ApiError, OSError) as error:
            if self._service.ending.is_set():
                return {"state": "interrupted", "message": INTERRUPTED}
            state = "cancelled" if self._stop.is_set() else "failed"
            return {"state": state, "message": str(error)}
        finally:
            self._server.stop(drain_seconds=0)
            self._service.running.pop(self._key, None)
        return {"state": "succeeded", "message": ""}

    def _interruption(self) -> ApiError | None:
        if self._stop.is_set() or self._service.ending.is_set():
            return ApiError("CANCELLED", "The batch prediction job was cancelled.")
        return None

    def _predict(self) -> None:
        """Write a file of predictions for each file of instances, and one of all errors."""
        source = self._job["inputConfig"]
        files = [path for uri in source["gcsSource"]["uris"] for path in find_files(uri)]
        folder = local_path(self._job["outputInfo"]["gcsOutputDirectory"])
        assert folder
        folder.mkdir(parents=True, exist_ok=True)
        tuning = self._job.get("manualBatchTuningParameters", {})
        num_predicted, errors = 0, Counter[str]()
        for number, path in enumerate(files):
            instances = read_instances(path, source["instancesFormat"])
            results = folder / f"prediction.results-{number:05d}-of-{len(files):05d}"
            with results.open("wb") as file:
                while batch := list(islice(instances, tuning.get("batchSize", DEFAULT_BATCH_SIZE))):
                    good = [row for row in batch if not isinstance(row, BadRow)]
                    predictions = iter(self._ask(good))
                    for row in batch:
                        prediction = row if isinstance(row, BadRow) else next(predictions)
                        if isinstance(prediction, BadRow):
                            errors[prediction.reason] += 1
                            continue
                        line = {"instance": row, "prediction": prediction}
                        file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
                        num_predicted += 1
        lines = "".join(f"{error}\n" for error in errors.items())
        (folder / "prediction.errors_stats-00000-of-00001").write_text(lines)
        counts = {"successfulCount": num_predicted, "failedCount": errors.total()}
        stats = {name: str(count) for name, count in counts.items() if count}
        self._service.store.update(self._name, lambda job: job.update(completionStats=stats))
        if not num_predicted:
            raise failed_precondition(f"No row was predicted. {next(iter(errors), '')}".rstrip())

    def _ask(self, instances: list[Any]) -> list[Any]:
        """Return predictions, or a `BadRow`; what the server refuses together is sent one by one.

        A failure of the server is retried.
        """
        body: Json = {"instances": instances}
        if "modelParameters" in self._job:
            body["parameters"] = self._job["modelParameters"]
        data, problem, status = orjson.dumps(body), "", 0
        for number in range(NUM_SENDS if instances else 0):
            if error := self._interruption():
                raise error
            self._stop.wait(RETRY_SECONDS if number else 0)
            status = 0
            try:
                with self._server.running(time.monotonic() + REQUEST_TIMEOUT_SECONDS) as server:
                    status, text = server_requests.exchange(
                        "POST",
                        server.port,
                        server.predict_route,
                        data,
                        timeout_seconds=REQUEST_TIMEOUT_SECONDS,
                    )
                if status == http.HTTPStatus.OK:
                    found = server_requests.parse_predictions(text, title=self._server.title)
                    if isinstance(found, list) and len(found) == len(instances):
                        return found
                    problem = f"{len(instances)} instances have the predictions {found}"
                    break
                answer = text.decode(errors="replace").strip()
                problem = f"Non-OK result {status} ({answer}) from server, retry={number + 1}."
                if status < http.HTTPStatus.INTERNAL_SERVER_ERROR:
                    break
            except (ApiError, OSError, http.client.HTTPException) as error:
                problem = str(error)
        if len(instances) > 1 and status // 100 == HTTP_REFUSED:
            return [prediction for instance in instances for prediction in self._ask([instance])]
        return [BadRow(f"{FAILS}Exceeded retries: {problem}") for _ in instances]
