"""`ssmt serve` and `ssmt api-key` as a person calls them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from ssmt.serve.keys import Keys
from tests.cli.test_bad_input import Ssmt, refused

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")


def test_what_cannot_be_served_is_said_before_it_is_loaded(ssmt: Ssmt, model_directory: Path, tmp_path: Path) -> None:
    refused(ssmt("serve", model_directory), "does not say which languages", f"en-zu={model_directory}")
    refused(ssmt("serve", tmp_path / "nothing"), "there is no such directory")
    refused(ssmt("serve", f"en-zu={tmp_path}", "--port", "0"), "is not a model directory")
    refused(ssmt("serve", f"en={model_directory}", "--port", "0"), "expected languages and a directory")
    refused(ssmt("serve", f"pt-BR-zu={model_directory}", "--port", "0"), "such as .* pt-BR:zu=")
    twice = [f"en-zu={model_directory}"] * 2
    refused(ssmt("serve", *twice, "--port", "0"), "Two models are for en-zu")
    refused(ssmt("serve", f"en-zu={model_directory}", "--api-keys", tmp_path / "keys"), "keys: there is no such file")
    refused(ssmt("serve", f"en-zu={model_directory}", "--host", "no such host"), "cannot listen there")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused(ssmt("serve", f"en-zu={model_directory}", "--port", port), f"port {port}: cannot listen there")


def test_a_key_is_made_and_printed(ssmt: Ssmt, tmp_path: Path) -> None:
    done = ssmt("api-key", tmp_path / "keys", "weblate", "--days", "30")
    assert done.status == 0
    assert Keys(tmp_path / "keys").name_of(done.out.strip()) == "weblate"
    refused(ssmt("api-key", tmp_path / "keys", "weblate"), "has a key called weblate already")


def test_sigterm_finishes_what_is_under_way(model_directory: Path) -> None:
    """A window of a second keeps a request under way while the signal comes."""
    command = [sys.executable, "-m", "ssmt", "serve", f"en-zu={model_directory}", "--port", "0", "--window", "1000"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "200"}) as process:
        try:
            assert process.stderr is not None
            started = process.stderr.readline()
            url = started.split(" at ")[1].split()[0]
            assert started.startswith("Serving en-zu at http://127.0.0.1:")
            answers: list[str] = []

            def ask() -> None:
                body = json.dumps({"q": "I see.", "source": "en", "target": "zu"}).encode()
                request = urllib.request.Request(f"{url}/translate", body, {"Content-Type": "application/json"})
                with urllib.request.urlopen(request, timeout=60) as answer:
                    answers.append(json.load(answer)["translatedText"])

            asking = threading.Thread(target=ask)
            asking.start()
            while 'ssmt_queue_sentences{model="en-zu"} 1.0' not in _metrics(url):
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            asking.join()
            assert len(answers) == 1
            assert process.wait(60) == 0
            assert process.stderr.read() == "Ended\n"
        finally:
            process.kill()


def _metrics(url: str) -> str:
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        return str(answer.read().decode())
