"""Checking a store that nobody has open: everything is read, and nothing is changed."""

from __future__ import annotations

from pathlib import Path

from mqplug import Corrupt, Error
from mqplug_rocksmq._care.findings import Report
from mqplug_rocksmq._care.survey import Taker, survey
from mqplug_rocksmq._engine.directory import DATABASE, IDENTITY, WITNESS, examine, read_identity
from mqplug_rocksmq._engine.ownership import Ownership
from mqplug_rocksmq._engine.rocks import Pages
from mqplug_rocksmq._engine.tuning import Tuning
from mqplug_rocksmq._engine.witness import testimony_of


def check(path: Path) -> Report:
    """Look at everything in a store; ``AlreadyOpen`` if somebody has it open."""
    examine(path, create=False, named=False)
    ownership = Ownership(path)
    try:
        report = inspect(path)
        look_at_name(path, report)
        return report
    finally:
        ownership.release()


def look_at_name(path: Path, report: Report) -> None:
    """Compare the file that names a store with the name that its database knows."""
    try:
        identity = read_identity(path)
    except Corrupt as error:
        report.add(error.message)
        return
    if identity is None:
        report.add(f"the file {path / IDENTITY}, which names the store, is missing")
    elif report.store is not None and identity.id != report.store:
        report.add(f"the file {path / IDENTITY} says {identity.id}, and the database says {report.store}")


def inspect(path: Path) -> Report:
    """Look at everything in a directory that is certain to be left alone."""
    report = Report()
    try:
        pages = open_leniently(path / DATABASE, report)
    except Error:
        return report  # why is in it
    look(path, pages, report)
    return report


def look(path: Path, pages: Pages, report: Report, taker: Taker | None = None) -> None:
    """Look at everything, and close the pages."""
    try:
        survey(pages, testimony_of(path / WITNESS), report, taker)
    finally:
        pages.close()


def open_leniently(database: Path, report: Report) -> Pages:
    """Open a database for reading, if need be without what is damaged in its write-ahead log; report that."""
    try:
        return Pages(database, read_only=True)
    except Error as error:
        report.add(f"the database cannot be opened: {error.message}")
    return Pages(database, Tuning(), "lenient", read_only=True)
