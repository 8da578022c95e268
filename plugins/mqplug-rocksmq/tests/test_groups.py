from __future__ import annotations

import pytest
from rocksmq_stores import OpenStore, new_log
from store_seam import Store, StoredPosition

from mqplug import TopicNotFound

pytestmark = pytest.mark.python


def test_places_are_exact(open_store: OpenStore) -> None:
    """A group's position keeps every gap, also after the store is reopened."""
    store = open_store(sync="os")
    log = new_log(store)
    place = StoredPosition(5, tuple((start, start + 1) for start in range(6, 5000, 2)))
    assert store.groups.position("billing", log) is None
    store.groups.store("billing", {log: place}, 30)
    store.close()
    assert open_store(sync="os").groups.position("billing", log) == place


def test_start_keeps_what_is_there(store: Store) -> None:
    """A start is stored only in logs where the group has no position."""
    first, second = new_log(store, "a"), new_log(store, "b")
    store.groups.store("g", {first: StoredPosition(7)}, 30)
    held = store.groups.start("g", {first: StoredPosition(1), second: StoredPosition(2)}, 30)
    assert held == {first: StoredPosition(7), second: StoredPosition(2)}
    assert store.groups.logs("g") == held


def test_names(store: Store) -> None:
    """Groups are listed by log, even if one name is a prefix of another."""
    first, second = new_log(store, "a"), new_log(store, "b")
    store.groups.store("g", {first: StoredPosition(0)}, 30)
    store.groups.store("g1", {first: StoredPosition(0), second: StoredPosition(0)}, 30)
    assert (store.groups.names(first), store.groups.names(second), store.groups.names()) == (
        ["g", "g1"],
        ["g1"],
        ["g", "g1"],
    )
    store.groups.delete("g1", (first, second), 30)
    assert store.groups.names() == ["g"]


def test_places_go_with_their_topic(store: Store) -> None:
    """Deleting a topic deletes the groups' positions in it, and no position can be stored there."""
    log = new_log(store)
    store.groups.store("g", {log: StoredPosition(3)}, 30)
    store.delete_topic("orders")
    assert store.groups.names() == []
    with pytest.raises(TopicNotFound):
        store.groups.store("g", {log: StoredPosition(3)}, 30)
