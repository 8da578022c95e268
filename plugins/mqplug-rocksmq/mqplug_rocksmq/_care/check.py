"""Check of a closed store: reads everything, changes nothing. It is a survey whose sound data goes nowhere."""

from __future__ import annotations

from pathlib import Path

from mqplug import Corrupt, Error
from mqplug_rocksmq._care.damage import SurveyReport
from mqplug_rocksmq._care.sound_data import SoundDataSink, survey
from mqplug_rocksmq._engine.directory import DATABASE, HAND_OUTS, IDENTITY, WITNESS, examine, read_identity
from mqplug_rocksmq._engine.errors import may_be_damage
from mqplug_rocksmq._engine.ownership import Ownership
from mqplug_rocksmq._engine.rocks import Pages
from mqplug_rocksmq._engine.store_files import read_own
from mqplug_rocksmq._engine.tuning import Tuning
from mqplug_rocksmq._engine.witness import read_witness
from mqplug_rocksmq._format.hand_out_notes import read_journal
from mqplug_rocksmq._format.keys import JOURNAL


def check_store(path: Path) -> SurveyReport:
    """Check everything in a store. Raise ``AlreadyOpen`` if a process has it open."""
    examine(path, create=False, named=False)
    ownership = Ownership(path, reading=True)
    try:
        report = inspect_directory(path)
        check_name(path, report)
        check_journal(path, report)
        return report
    finally:
        ownership.release()


def check_name(path: Path, report: SurveyReport) -> None:
    """Compare the id in the file ``format`` with the one in the database."""
    try:
        identity = read_identity(path)
    except Corrupt as error:
        report.add(error.message)
        return
    if identity is None:
        report.add(f"the file {path / IDENTITY}, which holds the store's id, is missing")
    elif report.store is not None and identity.id != report.store:
        report.add(f"the file {path / IDENTITY} has the id {identity.id}, but the database has {report.store}")


def check_journal(path: Path, report: SurveyReport) -> None:
    """Check the journal of hand-outs, which may be incomplete only if the host died."""
    recorded = read_witness(path / WITNESS)
    try:
        raw = read_own(path / HAND_OUTS)
        pages = open_leniently(path / DATABASE, SurveyReport())
    except (FileNotFoundError, Error):
        return
    try:
        token = pages.get(JOURNAL)
    except Error:
        return
    finally:
        pages.close()
    damaged = read_journal(raw, token).damaged if token else None
    if damaged is not None and recorded is not None and not recorded.host_ended:
        report.add(f"the file {path / HAND_OUTS}, which counts hand-outs, is damaged from byte {damaged} on")


def inspect_directory(path: Path) -> SurveyReport:
    """Check everything in a directory that no other process uses."""
    report = SurveyReport()
    try:
        pages = open_leniently(path / DATABASE, report)
    except Error:
        if report.sound:
            raise
        return report  # it has the reason
    survey_pages(path, pages, report)
    return report


def survey_pages(path: Path, pages: Pages, report: SurveyReport, sink: SoundDataSink | None = None) -> None:
    """Survey everything, then close the pages."""
    try:
        survey(pages, read_witness(path / WITNESS), report, sink)
    finally:
        pages.close()


def open_leniently(database: Path, report: SurveyReport) -> Pages:
    """Open a database for reading, if necessary without the damaged part of its write-ahead log. Report the damage."""
    try:
        return Pages(database, read_only=True)
    except Error as error:
        if not may_be_damage(error):
            raise
        report.add(f"the database cannot be opened: {error.message}")
    return Pages(database, Tuning(), "lenient", read_only=True)
