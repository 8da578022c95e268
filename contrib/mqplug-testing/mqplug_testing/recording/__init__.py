"""Recording: an extension that records every call to a backend's drivers.

Search the recording for lost, repeated and reordered messages::

    from mqplug_testing.recording import Recorder

    recorder = Recorder()
    with mqplug.connect("memory", extensions=[recorder]) as mq:
        ...
    for call in recorder.calls():
        print(call.operation, call.outcome)

``Recorder("history.jsonl")`` writes the calls to a file, which survives a killed process. ``read`` reads them back.
Acks are handled in the core and reach no driver. A recording has the commits instead: positions, and the acked ranges
after them. It has everything that a driver delivered; the core may have handed out less.
"""

from __future__ import annotations

from mqplug_testing.recording._extension import Recorder
from mqplug_testing.recording._recording import Call, Outcome, Received, Sent, Settled, digest, read

__all__ = ["Call", "Outcome", "Received", "Recorder", "Sent", "Settled", "digest", "read"]
