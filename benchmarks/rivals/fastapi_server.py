"""FastAPI on uvicorn, with uvloop and httptools: `python -m benchmarks.rivals.fastapi_server`.

The handler is asynchronous: a thread for each request would be slower.
"""

import os
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import ORJSONResponse

from trainer.serve import load_ready_predictor

app = FastAPI(default_response_class=ORJSONResponse)
predictor = load_ready_predictor(os.environ["AIP_STORAGE_URI"])


@app.get("/health")
async def health() -> dict[str, str]:
    """Respond once the model is loaded."""
    return {"status": "ready"}


@app.post("/predict", response_model=None)
async def predict(request: Request) -> Any:
    """Predict the instances of a request."""
    content = await request.json()
    return ORJSONResponse({"predictions": predictor.predict(content["instances"])})


if __name__ == "__main__":
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=int(os.environ["AIP_HTTP_PORT"]),
        access_log=False,
        loop="uvloop",
    )
