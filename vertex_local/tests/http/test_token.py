"""Where the kernel does not tell whose a connection is, a request must have the root's token."""

import os
import stat
import subprocess
import sys

import pytest
import requests

from vertex_local import client, testing
from vertex_local.machine.system import PORTABLE_VARIABLE
from vertex_local.tests.support.service import PARENT

MODELS = f"/v1/{PARENT}/models"
PREDICT = f"/v1/{PARENT}/endpoints/5:predict"


@pytest.fixture(scope="module")
def portable(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PORTABLE_VARIABLE, "1")
        root = tmp_path_factory.mktemp("portable")
        with testing.running("--buckets", str(root / "buckets"), root=root / "vertex") as service:
            yield service


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", MODELS), ("GET", "/"), ("POST", PREDICT), ("GET", "/?token=wrong")],
    ids=["read", "console", "predict", "wrong"],
)
def test_a_request_without_the_token_is_refused(portable, method, path):
    body = {"instances": [1]} if method == "POST" else None
    response = requests.request(method, portable.url + path, json=body, timeout=60)
    assert response.status_code == 403
    assert "token" in response.json()["error"]["message"]


@pytest.mark.parametrize(("method", "path", "code"), [("GET", MODELS, 200), ("POST", PREDICT, 404)])
def test_a_request_with_the_token_is_served(portable, method, path, code):
    assert portable.call(method, path, {"instances": [1]}).status_code == code


def test_the_token_is_a_file_of_this_user_and_outlives_the_service(portable):
    token = client.token_of(portable.root)
    assert stat.S_IMODE((portable.root / client.TOKEN_FILE).stat().st_mode) == 0o600
    portable.stop()
    portable.start()
    assert client.token_of(portable.root) == token


def test_a_browser_keeps_the_token_of_the_address_as_a_cookie(portable):
    with requests.Session() as browser:
        address = f"{portable.url}/runs?page=2&token={client.token_of(portable.root)}"
        response = browser.get(address, timeout=60)
        assert (response.status_code, response.url) == (200, f"{portable.url}/runs?page=2")
        cookie = response.history[0].headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Lax" in cookie  # a link in a report or a mail sends it
        assert browser.get(portable.url, timeout=60).ok


def test_a_browser_without_the_token_is_asked_for_it(portable):
    headers = {"Accept": "text/html,*/*"}
    for path in ("/runs", "/runs?q=a%22b&token=wrong"):
        response = requests.get(portable.url + path, headers=headers, timeout=60)
        assert response.status_code == 403
        assert '<input type="password" name="token"' in response.text
        assert f"{portable.root}/token" in response.text
    assert '<input type="hidden" name="q" value="a&#34;b">' in response.text
    assert response.text.count('name="token"') == 1
    headers["Host"] = "evil.example"
    response = requests.get(portable.url, headers=headers, timeout=60)
    assert response.json()["error"]["code"] == 403


def test_google_s_sdk_has_the_token_in_programs_of_exec(portable):
    code = "from google.cloud import aiplatform; print(aiplatform.Model.list())"
    command = ["exec", "--root", str(portable.root), "--", sys.executable, "-W", "ignore", "-c"]
    command = [sys.executable, "-m", "vertex_local.cli", *command, code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_another_program_joins_with_the_token(portable, monkeypatch):
    user = client.LocalService(portable.root)
    user.join()
    assert user.token == client.token_of(portable.root)
    user.leave()
    monkeypatch.setenv(client.EMULATOR_VARIABLE, portable.host)
    with pytest.raises(client.ServiceError, match="no valid token"):
        client.LocalService(portable.root).join()


def test_the_address_of_the_buckets_has_the_token(portable):
    pytest.importorskip("gcp_storage_emulator")
    address = client.announced(portable.root)["storage"]
    bucket = {"name": "bucket"}
    assert requests.post(f"{address}/storage/v1/b?project=p", json=bucket, timeout=60).ok
    assert requests.get(f"{address}/storage/v1/b/bucket", timeout=60).ok
    outside = os.path.dirname(address)
    assert requests.get(f"{outside}/storage/v1/b/bucket", timeout=60).status_code == 403
