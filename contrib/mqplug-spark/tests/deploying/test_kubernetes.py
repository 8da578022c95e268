"""The Kubernetes section of ``docs/deploying.md``, checked with the schemas and with Spark's own spark-submit."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import kubernetes_validate
import pyspark
import pytest
import yaml

PAGE = (Path(__file__).parents[2] / "docs" / "deploying.md").read_text()
KUBERNETES = "1.31"


def blocks(language: str) -> list[str]:
    """The blocks in one language of the page's Kubernetes section and later ones."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE.partition("\n## Kubernetes\n")[2], re.DOTALL)


MANIFESTS = [manifest for block in blocks("yaml") for manifest in yaml.safe_load_all(block)]


def test_the_page_has_its_manifests() -> None:
    """The page has an account with its rights, a configuration and a pod template."""
    assert [each["kind"] for each in MANIFESTS] == ["ServiceAccount", "Role", "RoleBinding", "ConfigMap", "Pod"]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest["kind"])
def test_a_manifest_is_valid(manifest: dict[str, Any]) -> None:
    """Each manifest fits the schema of its kind; unknown keys are refused."""
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**manifest, "specs": {}}, KUBERNETES, strict=True)


@contextmanager
def api_server(created: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the URL of a server that answers like the Kubernetes API when objects are created, and records them."""

    class Api(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404})

        def do_POST(self) -> None:
            made = yaml.safe_load(self.rfile.read(int(self.headers["Content-Length"])))
            created.append(made)
            marked = {**made["metadata"], "uid": f"uid-{len(created)}", "resourceVersion": "1"}
            self._answer(201, {**made, "metadata": marked})

        do_PATCH = do_PUT = do_POST  # noqa: N815

        def log_message(self, *arguments: object) -> None:
            """Log nothing."""

        def _answer(self, status: int, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.night
@pytest.mark.timeout(180)
@pytest.mark.usefixtures("java")
def test_spark_submit_creates_a_valid_pod_without_secrets(tmp_path: Path) -> None:
    """The page's command creates a driver that gets the configuration and a reference to the password."""
    (command,) = blocks("sh")
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(MANIFESTS[-1]))
    created: list[dict[str, Any]] = []
    with api_server(created) as url:
        words = shlex.split(command.replace("\\\n", "").replace("https://kubernetes.example.com:6443", url))
        ran = subprocess.run(
            [Path(pyspark.__file__).parent / "bin" / words[0], *words[1:]],
            check=False,
            cwd=tmp_path,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "KUBECONFIG": str(tmp_path / "none")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=150,
        )
    assert ran.returncode == 0, ran.stdout
    for each in created:
        kubernetes_validate.validate(each, KUBERNETES, strict=True)
    (driver,) = (each for each in created if each["kind"] == "Pod")
    assert driver["spec"]["serviceAccountName"] == "spark"
    (container,) = (each for each in driver["spec"]["containers"] if each["name"] == "spark")
    variables = {each["name"]: each for each in container["env"]}
    assert variables["MQPLUG_CONFIG"]["value"] == "/etc/mqplug/mqplug.toml"
    assert variables["KAFKA_PASSWORD"]["valueFrom"] == {"secretKeyRef": {"name": "kafka", "key": "password"}}
    assert {"/etc/mqplug", "/etc/kafka"} <= {each["mountPath"] for each in container["volumeMounts"]}
