"""Send and receive with only the required packages of the core installed, and no extra."""

from __future__ import annotations

from importlib.util import find_spec

import mqplug

assert not any(map(find_spec, ["click", "pyarrow", "pytest", "yaml"]))

with mqplug.connect("memory") as mq:
    mq.create_topic("orders")
    with mq.producer("orders") as out:
        sent = out.send(b"two chairs")
    with mq.consumer("orders", group="billing") as orders:
        message = orders.receive(timeout=10)
        assert message is not None
        assert (message.id, message.value) == (sent, b"two chairs")
        orders.ack(message)
    assert mq.lag("orders", group="billing") == {0: 0}
