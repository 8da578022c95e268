"""A recorder: an extension that writes down every call to a backend's drivers.

What was lost, repeated or reordered can be searched for in such a history::

    from mqplug.recording import Recorder

    recorder = Recorder()
    with mqplug.connect("memory", extensions=[recorder]) as mq:
        ...
    for call in recorder.calls():
        print(call.operation, call.outcome)

With ``Recorder("history.jsonl")`` the calls go to a file, which a killed process leaves behind as it was; ``read``
gives them back. Acks are the core's affair and reach no driver: a recording has the commits, with the positions and
the acked ranges behind them. It has what a driver delivered, of which the core may have handed out less.
"""

from __future__ import annotations

from mqplug.recording._calls import Call, Outcome, Received, Sent, Settled, digest
from mqplug.recording._extension import Recorder
from mqplug.recording._file import read

__all__ = ["Call", "Outcome", "Received", "Recorder", "Sent", "Settled", "digest", "read"]
