"""Certificates for tests: an authority that issues certificates with any lifetime."""

from __future__ import annotations

import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from mqplug_devbrokers._errors import MissingTool
from mqplug_devbrokers._tools import run_tool

OPENSSL_TIMEOUT_S = 60.0
LIFETIME_S = 30 * 24 * 3600.0
CLOCK_SLACK_S = 60.0  # how much earlier certificates begin, as clocks may differ by a second
SETTINGS = """\
[ca]
default_ca = authority
[authority]
database = {folder}/index.txt
new_certs_dir = {folder}
certificate = {folder}/ca.pem
private_key = {folder}/ca.key
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
[any]
commonName = supplied
[req]
distinguished_name = name
prompt = no
[name]
CN = {name}
[root]
basicConstraints = critical,CA:true
keyUsage = critical,keyCertSign,cRLSign
[leaf]
basicConstraints = CA:false
extendedKeyUsage = serverAuth,clientAuth
"""


class Certificate(NamedTuple):
    """The PEM files of a certificate and its private key, which is not encrypted."""

    cert_file: Path
    key_file: Path


class CertificateAuthority:
    """An authority in a directory, with a self-signed certificate. Its files exist as soon as it is created."""

    def __init__(self, directory: Path, name: str = "mqplug-devbrokers") -> None:
        self._folder = directory
        self._openssl = find_openssl()
        self.ca_file = directory / "ca.pem"
        """The certificate that clients must trust."""
        if not self.ca_file.exists():
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "index.txt").touch()
            self._make_key(directory / "ca.key")
            self._run(
                "req", "-x509", "-new", "-key", directory / "ca.key", "-days", "365",
                "-extensions", "root", "-config", self._settings(name), "-out", self.ca_file,
            )  # fmt: skip

    def issue(
        self, name: str, *, hosts: tuple[str, ...] = (), lifetime: float = LIFETIME_S, directory: Path | None = None
    ) -> Certificate:
        """Return a new certificate for `name`, valid for `lifetime` seconds from now.

        `hosts` are the host names and addresses of a server. The files are `name.pem` and `name.key` in `directory`,
        by default the authority's. If they exist, each is replaced in one step, the key first.
        """
        target = directory or self._folder
        files = Certificate(target / f"{name}.pem", target / f"{name}.key")
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            key, request, cert = (Path(folder, file) for file in ("key", "request", "cert"))
            self._make_key(key)
            settings = self._settings(name, hosts)
            self._run("req", "-new", "-key", key, "-config", settings, "-out", request)
            now = datetime.now(UTC)
            self._run(
                "ca", "-batch", "-notext", "-config", settings, "-extensions", "leaf", "-in", request, "-out", cert,
                "-startdate", _moment(now - timedelta(seconds=CLOCK_SLACK_S)),
                "-enddate", _moment(now + timedelta(seconds=lifetime)),
            )  # fmt: skip
            key.replace(files.key_file)
            cert.replace(files.cert_file)
        return files

    def _make_key(self, file: Path) -> None:
        self._run("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", file)

    def _settings(self, name: str, hosts: tuple[str, ...] = ()) -> Path:
        names = [f"{'IP' if host.replace('.', '').isdigit() or ':' in host else 'DNS'}:{host}" for host in hosts]
        text = SETTINGS.format(folder=self._folder, name=name)
        if names:
            text += f"subjectAltName = {','.join(names)}\n"
        file = self._folder / "openssl.cnf"
        file.write_text(text)
        return file

    def _run(self, *arguments: object) -> None:
        run_tool([self._openssl, *map(str, arguments)], timeout=OPENSSL_TIMEOUT_S)


def _moment(moment: datetime) -> str:
    return moment.strftime("%Y%m%d%H%M%SZ")


def find_openssl() -> str:
    """Return the path of the program."""
    openssl = shutil.which("openssl")
    if openssl is None:
        raise MissingTool(
            "openssl, which makes the certificates, was not found on the search path; install it "
            "(Debian, Ubuntu: apt install openssl)"
        )
    return openssl
