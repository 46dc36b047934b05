"""Driver of a batch prediction: a prediction server of the model, fed with the rows of files."""

import http.client
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from vertex_local import Json
from vertex_local.api.resource_names import ResourcePath
from vertex_local.api.service import Service
from vertex_local.batch.instances import Row, find_files, read_rows
from vertex_local.endpoints import deployments, server_requests
from vertex_local.endpoints.deployed_model import ServingProcess
from vertex_local.errors import ApiError, failed_precondition, invalid_argument
from vertex_local.machine.files import local_path
from vertex_local.processes.supervisor import INTERRUPTED

logger = logging.getLogger(__name__)

# ManualBatchTuningParameters: "The default value is 64."
DEFAULT_BATCH_SIZE = 64
NUM_IN_FLIGHT = 4
NUM_SENDS = 3
REQUEST_TIMEOUT_SECONDS = 600.0
RETRY_SECONDS = 1.0
MAX_FAILURES = 20  # "This field never exceeds 20 entries."
CANCELLED = "The batch prediction job was cancelled."
Answer = tuple[Row, Any] | str  # a row and its prediction, or an error


@dataclass
class Output:
    """Counts of a batch prediction, and the problems of its rows and files."""

    num_predicted: int = 0
    problems: Counter[str] = field(default_factory=Counter)
    failures: list[Json] = field(default_factory=list)

    def fields(self) -> Json:
        """Return the fields of the job's record."""
        counts = {
            "successfulCount": self.num_predicted,
            "failedCount": self.problems.total(),
        }
        return {
            "completionStats": {name: str(count) for name, count in counts.items() if count},
            **({"partialFailures": self.failures[:MAX_FAILURES]} if self.failures else {}),
        }


class BatchPrediction:
    """Driver of a batch prediction, with the interface of a group of processes.

    All its state is in the record: the next service begins anew and writes the same files.
    """

    def __init__(self, service: Service, name: str, *, folder: Path) -> None:
        self._service = service
        self._name = name
        self._job = service.store.get(name)
        self._stop = threading.Event()
        job_id = ResourcePath.from_name(name).id
        model = self._job["model"].partition("@")[0] + f"@{self._job['modelVersionId']}"
        self._server = ServingProcess(
            lambda: deployments.spec_of_model(
                service, model, endpoint_id=job_id, deployed_id=job_id
            ),
            folder=folder / "server",
            title=f"The prediction server of {name}",
            launch=service.launch,
        )

    def request_stop(self, grace_seconds: float) -> None:
        """Request the end of the job, without waiting for it."""
        self._stop.set()
        stop = partial(self._server.stop, drain_seconds=0)
        threading.Thread(target=stop, name=f"stop {self._name}", daemon=True).start()

    def wait(self) -> Json:
        """Predict all rows; return the last state and its message."""
        key = deployments.key_of(self._name, "server")
        self._service.running[key] = self._server  # ended with those of endpoints
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
            self._service.running.pop(key, None)
        return {"state": "succeeded", "message": ""}

    def _interruption(self) -> ApiError | None:
        if self._stop.is_set() or self._service.ending.is_set():
            return ApiError("CANCELLED", CANCELLED)
        return None

    def _predict(self) -> None:
        """Write a file of predictions for each file of instances, and one of all errors."""
        source = self._job["inputConfig"]
        files = [path for uri in source["gcsSource"]["uris"] for path in find_files(uri)]
        folder = local_path(self._job["outputInfo"]["gcsOutputDirectory"])
        assert folder
        folder.mkdir(parents=True, exist_ok=True)
        output = Output()
        for number, path in enumerate(files):
            results = folder / f"prediction.results-{number:05d}-of-{len(files):05d}"
            with results.open("wb") as file:
                for answer in self._answers(path, source["instancesFormat"], output):
                    if isinstance(answer, str):
                        output.problems[answer] += 1
                        continue
                    row, prediction = answer
                    line = {**row.shown, "prediction": prediction}
                    file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
                    output.num_predicted += 1
        lines = [f"{problem}\n" for problem in output.problems.items()]
        (folder / "prediction.errors_stats-00000-of-00001").write_text("".join(lines))
        self._service.store.update(self._name, lambda job: job.update(output.fields()))
        if not output.num_predicted:
            reasons = [*output.problems, *(failure["message"] for failure in output.failures)]
            raise failed_precondition(f"No row was predicted. {' '.join(reasons[:1])}".rstrip())

    def _answers(self, path: Path, kind: str, output: Output) -> Iterator[Answer]:
        """Yield the answers to the rows of a file, in their order; some requests are in flight."""
        tuning = self._job.get("manualBatchTuningParameters", {})
        size = int(tuning.get("batchSize", DEFAULT_BATCH_SIZE))
        rows = read_rows(path, kind, self._job.get("instanceConfig", {}))
        pending: deque[Future[list[Answer]]] = deque()
        with ThreadPoolExecutor(NUM_IN_FLIGHT) as pool:
            try:
                while batch := list(islice(rows, size)):
                    pending.append(pool.submit(self._ask, batch))
                    if len(pending) > NUM_IN_FLIGHT:
                        yield from pending.popleft().result()
            except (OSError, EOFError) as error:
                problem = invalid_argument(f"{path} cannot be read: {error}")
                output.failures.append(problem.to_rpc_status())
            while pending:
                yield from pending.popleft().result()

    def _ask(self, batch: list[Row | ValueError]) -> list[Answer]:
        """Return the answers to rows; if the server refuses them together, ask one by one."""
        rows = [row for row in batch if isinstance(row, Row)]
        answers: list[Answer] = [
            f"Bad instance: {row}" for row in batch if not isinstance(row, Row)
        ]
        if not rows:
            return answers
        predictions = self._request(rows)
        if not isinstance(predictions, str):
            return answers + list(zip(rows, predictions, strict=True))
        if len(rows) == 1:
            return [*answers, predictions]
        return answers + [answer for row in rows for answer in self._ask([row])]

    def _request(self, rows: list[Row]) -> list[Any] | str:
        """Return the predictions for rows, or the error; a failure of the server is retried."""
        body: Json = {"instances": [row.instance for row in rows]}
        if "modelParameters" in self._job:
            body["parameters"] = self._job["modelParameters"]
        data, problem = orjson.dumps(body), ""
        for number in range(NUM_SENDS):
            if error := self._interruption():
                raise error
            if number:
                self._stop.wait(RETRY_SECONDS)
            try:
                with self._server.running(time.monotonic() + REQUEST_TIMEOUT_SECONDS) as server:
                    status, text = server_requests.post(
                        server.port,
                        server.predict_route,
                        data,
                        timeout_seconds=REQUEST_TIMEOUT_SECONDS,
                    )
                if status == http.HTTPStatus.OK:
                    found = server_requests.parse_predictions(text, title=self._server.title)
                    if isinstance(found, list) and len(found) == len(rows):
                        return found
                    return f"The server did not return {len(rows)} predictions: {found}"
                result = f"Non-OK result {status} ({text.decode(errors='replace').strip()})"
                problem = f"{result} from server, retry={number + 1}."
                if status < http.HTTPStatus.INTERNAL_SERVER_ERROR:
                    break
            except (ApiError, OSError, http.client.HTTPException) as error:
                problem = str(error)
        return f"Post request fails. Cannot get predictions. Error: Exceeded retries: {problem}"
