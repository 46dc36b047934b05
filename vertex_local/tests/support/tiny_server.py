"""A prediction server in the standard library: doubles numbers, waits and fails on request.

If a word of its command is the path of a file, it exits while the file exists; it waits for the
removal of the file of a word "hold=PATH".
"""

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        is_health = self.path == os.environ["AIP_HEALTH_ROUTE"]
        self._respond(200 if is_health and "unhealthy" not in sys.argv else 404, {})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != os.environ["AIP_PREDICT_ROUTE"]:
            self._respond(404, {"error": f"no route {self.path}"})
        elif body["instances"] == ["die"]:
            sys.stderr.write("the model exploded\n")
            os._exit(3)
        elif "failing" in sys.argv:
            self._respond(500, {"error": "the model fails"})
        elif "classes" in sys.argv:
            one = {"class": 0, "label": "a", "probabilities": [0.75, 0.25]}
            self._respond(200, {"predictions": [one for _ in body["instances"]]})
        elif body["instances"][0] == "break off":
            self._break_off(Path(body["instances"][1]))
        elif "wait" in body["instances"][0:1]:
            time.sleep(body["instances"].pop())
            self._respond(200, {"predictions": [{"pid": os.getpid(), "argv": sys.argv[1:]}]})
        elif any(not isinstance(one, (int, float)) for one in body["instances"]):
            self._respond(400, {"error": {"message": "instances[0]: not a number"}})
        else:
            files = sorted(p.name for p in Path(os.environ["AIP_STORAGE_URI"]).iterdir())
            predictions = [
                {"double": 2 * one, "files": files, "argv": sys.argv[1:], "pid": os.getpid()}
                for one in body["instances"]
            ]
            self._respond(200, {"predictions": predictions})

    def _break_off(self, path):
        """If the file exists, remove it and exit in the middle of a response."""
        if not path.exists():
            self._respond(200, {"predictions": ["whole"]})
            return
        path.unlink()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"predictions": [')
        os._exit(3)

    def _respond(self, code, body):
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())


if __name__ == "__main__":
    sys.stderr.write("tiny server starts\n")
    if "crash" in sys.argv:
        sys.exit("cannot load the model: out of cheese")
    if any(Path(word).exists() for word in sys.argv[1:] if word.startswith("/")):
        sys.exit("cannot load the model: it is forbidden")
    while any(Path(word[5:]).exists() for word in sys.argv if word.startswith("hold=")):
        time.sleep(0.02)
    if "slow" in sys.argv:
        time.sleep(1)
    address = (os.environ["AIP_HTTP_HOST"], int(os.environ["AIP_HTTP_PORT"]))
    ThreadingHTTPServer(address, Handler).serve_forever()
