"""Why the connection fails, which the native client reports to its error callback alone."""

from __future__ import annotations

import math
import time

from confluent_kafka import KafkaError, KafkaException

from mqplug import AuthError, ConnectError, Error, Timeout
from mqplug_kafka._cluster.errors import error_from_native

_FIXES = {
    "OAUTHBEARER token": "Check token_endpoint, client_id and client_secret, or the token provider",
    "mechanism handshake failed": "Choose a mechanism= that the broker supports; if it lists none, leave username out",
    "certificate verify failed": "Set ca_file (or ca_pem) to the authority that signed the broker's certificate, and "
    "write its host as the certificate does",
    "PLAINTEXT broker listener": "Say tls=False, or use the port at which the broker expects TLS",
    "alert": "Set cert_file and key_file to a certificate that is valid now and that the broker trusts",
    "in state SSL_HANDSHAKE": "Say tls=False if the broker expects no TLS at this port, and check the certificates",
    "SASL authentication": "Check username, password and mechanism, or the token",
}
"""What to do, by what the native client says."""
_SILENT = "the brokers closed each connection without giving a reason, or none could be opened"
_SILENT_FIX = "Check servers=, and whether this port expects tls=True or username= and password="

REFUSAL_S = 1.0  # so long a refusal is not replaced by what follows from it, which does not say why
_REFUSED = {KafkaError._AUTHENTICATION, KafkaError._SSL}
_OUT_OF_TURN = "Request not valid in current SASL state"
"""What a broker without SASL says, and also one at which a connection proves itself twice within a second.

That happens now and then when a token is renewed. The native client then connects again.
"""


class ConnectionFailures:
    """The last errors of the connection. Native calls themselves just time out."""

    def __init__(self) -> None:
        self._last: KafkaError | None = None
        self._moment = 0.0
        self._failed_at: dict[str, float] = {}
        self._down_since: float | None = None
        self.down_at = -math.inf
        """When all brokers were last down, in monotonic time."""
        self.had_answer = False
        """Whether a broker has answered a request, so that the credentials were once accepted."""

    def __call__(self, error: KafkaError) -> None:
        """Remember an error. Serves as ``error_cb``."""
        if self.had_answer and _OUT_OF_TURN in error.str():
            return
        now = time.monotonic()
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.down_at = now
            self._down_since = self._down_since or self.down_at
            if self._last is not None:
                return  # it says less than the error before it
        else:
            self._failed_at[error.str().partition(": ")[0]] = now
        if error.code() in _REFUSED or not self._was_refused(now - REFUSAL_S):
            self._last, self._moment = error, now

    def _was_refused(self, since: float) -> bool:
        return self._last is not None and self._last.code() in _REFUSED and self._moment > since

    def hopeless(self, since: float, outage_limit: float, servers: int) -> bool:
        """Return whether waiting is pointless: credentials or certificates refused, or all brokers down too long."""
        if self._last is None or self._moment < since:
            return False
        return self._last.code() in _REFUSED or self._failed_again(outage_limit, servers)

    def _failed_again(self, after: float, servers: int) -> bool:
        """Return whether each of so many servers failed again, ``after`` seconds after all had failed.

        One that is silent since then may be slow, and about to answer.
        """
        if self._down_since is None:
            return False
        end = self._down_since + after
        return self.down_at > end or sum(moment > end for moment in self._failed_at.values()) >= servers

    def explain(self, what: str, since: float, cause: BaseException | None = None) -> Error:
        """Return the error for an operation that got no answer."""
        if self._last is None or self._moment < since:
            silent = Timeout(f"{what}: no answer in time", fix="Allow more time, or check that the brokers are up")
            silent.__cause__ = cause
            return silent
        code = self._last.code()
        if code == KafkaError._ALL_BROKERS_DOWN:
            made: Error = ConnectError(f"{what}: {_SILENT}", fix=_SILENT_FIX)
            made.__cause__ = KafkaException(self._last)
            return made
        made = error_from_native(self._last, what, AuthError if code == KafkaError._AUTHENTICATION else ConnectError)
        said = self._last.str()
        made.fix = next((fix for part, fix in _FIXES.items() if part in said), made.fix)
        return made
