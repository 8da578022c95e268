"""The configuration files inside Milvus' own packages, downloaded."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from config_backends import fakes

import mqplug
from mqplug_cli import run_command

yaml = pytest.importorskip("yaml")
uv = pytest.importorskip("uv")

__all__ = ["fakes"]

pytestmark = [pytest.mark.night, pytest.mark.timeout(600)]
FILES = {
    "2.1.0": "configs/embedded-milvus.yaml",
    "2.2.16": "data/config.yaml.template",
    "2.3.5": "data/config.yaml.template",
}
PLACEHOLDER = re.compile(r"\{\{\s*(\w+)(?:\(\w+\))?\s*(?::\s*(.*?))?\s*\}\}")
USED = {"type", "path", "retentionTimeInMinutes", "retentionSizeInMB"}
QUEUES = {"mq", "kafka", "pulsar", "rocksmq"}


@pytest.fixture(scope="module", params=FILES)
def shipped(request, tmp_path_factory):
    """The file of a version, with its placeholders filled in as the package does it."""
    package = tmp_path_factory.mktemp("package")
    command = [uv.find_uv_bin(), "pip", "install", "--quiet", "--python", sys.executable, "--no-deps"]
    subprocess.run([*command, "--target", package, f"milvus=={request.param}"], check=True)
    text = (package / "milvus" / FILES[request.param]).read_text()
    return PLACEHOLDER.sub(lambda match: match[2] or f"/var/lib/milvus/{match[1]}", text)


@pytest.fixture
def path(shipped, tmp_path):
    """The file's path."""
    path = tmp_path / "milvus.yaml"
    path.write_text(shipped)
    return path


def test_it_chooses_its_own_rocksmq(fakes, path):
    """The file of an embedded Milvus is read unchanged, and names the files of its RocksMQ and their retention."""
    wanted = yaml.safe_load(path.read_text())["rocksmq"]
    with mqplug.connect(path) as mq:
        assert mq.backend == "rocksmq"
    given = fakes["rocksmq"].given
    assert Path(given.path) == Path(wanted["path"])
    assert given.retention == wanted["retentionTimeInMinutes"] * 60
    assert given.retention_bytes == wanted["retentionSizeInMB"] * 2**20


def test_it_names_its_pulsar(fakes, path):
    """The same file's section of Pulsar is read if Pulsar is asked for."""
    wanted = yaml.safe_load(path.read_text())["pulsar"]
    with mqplug.connect(path, backend="pulsar") as mq:
        assert mq.backend == "pulsar"
    given = fakes["pulsar"].given
    assert given.service_url == f"pulsar://{wanted['address']}:{wanted['port']}"
    assert given.message_max_bytes == wanted["maxMessageSize"]


def test_no_key_is_ignored_silently(fakes, path, capsys):
    """Each key of the file is used, or the doctor lists it or its section with a reason."""
    run_command(["doctor", "--config", str(path), "--json"])
    listed = {each["key"]: each["reason"] for each in json.loads(capsys.readouterr().out)["left_alone"]}
    assert all(listed.values())
    missing = [
        f"{section}.{key}"
        for section, content in yaml.safe_load(path.read_text()).items()
        for key in (content if isinstance(content, dict) else ())
        if not {section, f"{section}.{key}"} & listed.keys() and not (section in QUEUES and key in USED)
    ]
    assert missing == []
