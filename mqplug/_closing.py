"""Closing within a deadline, whatever the native client does."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable

from mqplug._deadline import Deadline

GRACE = 0.5  # seconds that a native close may overrun its own timeout


def close_native(what: str, close: Callable[[float], None], deadline: Deadline, most: float = 30.0) -> None:
    """Run a driver's close; one that overruns is abandoned on a daemon thread, with a ``ResourceWarning``."""
    seconds = deadline.remaining(most)
    failure: list[BaseException] = []

    def run() -> None:
        try:
            close(seconds)
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            failure.append(error)

    thread = threading.Thread(target=run, name=f"mqplug-close-{what}", daemon=True)
    thread.start()
    thread.join(seconds + GRACE)
    if thread.is_alive():
        warnings.warn(f"closing {what} took too long and was abandoned", ResourceWarning, stacklevel=3)
    elif failure:
        raise failure[0]
