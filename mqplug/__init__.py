"""One API over message logs: produce, consume, acknowledge, seek, and ask for watermarks.

In short::

    import mqplug

    with mqplug.connect("memory") as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            out.send(b"hello")
        for message in mq.read("orders"):
            print(message.value)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from mqplug._public import *  # noqa: F403
    from mqplug._public import __all__ as __all__


def __getattr__(name: str) -> Any:
    """Load the public names when the first one is asked for: the command line, for one, begins without them.

    ``connect`` comes alone, since the others load what only producers and consumers need.
    """
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module 'mqplug' has no attribute {name!r}")
    if name == "connect":
        from mqplug._client.connect import connect

        return connect
    from mqplug import _public

    public = {each: getattr(_public, each) for each in _public.__all__}
    globals().update(public | globals(), __all__=_public.__all__)  # a replaced ``connect`` stays replaced
    try:
        return globals()[name]
    except KeyError:
        raise AttributeError(f"module 'mqplug' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    from mqplug import _public

    return sorted({*globals(), *_public.__all__})
