"""Flask on waitress with eight threads: `python -m benchmarks.rivals.flask_server`."""

import os
from typing import Any

from flask import Flask, request
from waitress import serve

from trainer.serve import load_ready_predictor

app = Flask(__name__)
predictor = load_ready_predictor(os.environ["AIP_STORAGE_URI"])


@app.get("/health")
def health() -> dict[str, str]:
    """Respond once the model is loaded."""
    return {"status": "ready"}


@app.post("/predict")
def predict() -> dict[str, Any]:
    """Predict the instances of a request."""
    return {"predictions": predictor.predict(request.get_json()["instances"])}


if __name__ == "__main__":
    serve(app, host="127.0.0.1", port=int(os.environ["AIP_HTTP_PORT"]), threads=8)
