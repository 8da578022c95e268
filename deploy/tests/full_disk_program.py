"""Fill a host's disk and run the page's steps: `python full_disk_program.py ROOT`, on a small disk."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from standalone_host import Host

import mqplug

SEND_S = 30.0


def fill(out: mqplug.Producer) -> int:
    """Send to two topics until the disk is full. Return the number of messages in each."""
    sent = 0
    try:
        while True:
            for topic in ("kept", "old"):
                out.send(os.urandom(100_000), topic=topic)
            sent += 1
    except mqplug.StorageFull:
        return sent


def send_again(out: mqplug.Producer) -> mqplug.MessageId:
    """Send as soon as the disk has space."""
    end = time.monotonic() + SEND_S
    while True:
        try:
            return out.send(b"again", topic="kept")
        except mqplug.StorageFull:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def main(root: Path) -> None:
    """Print whether the promises of the page hold."""
    host = Host(root)
    try:
        host.start()
        with mqplug.connect("rocksmq", path=str(host.store)) as mq:
            for topic in ("kept", "old"):
                mq.create_topic(topic)
            with mq.producer() as out:
                sent = fill(out)
                print("kept:", len(list(mq.read("kept"))) >= sent > 10)  # noqa: T201
                mq.delete_topic("old")
                host.carry_out("full disk")
                print("again:", send_again(out).log.topic)  # noqa: T201
        print("stopped:", host.stop())  # noqa: T201
    finally:
        host.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
