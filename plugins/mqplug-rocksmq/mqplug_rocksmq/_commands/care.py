"""``mqplug rocksmq check``, ``repair``, ``backup`` and ``restore``."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from mqplug import AlreadyOpen
from mqplug_rocksmq._commands.output import answer_timeout_option, path_argument, print_json, print_json_option
from mqplug_rocksmq._engine.store_files import writable
from mqplug_rocksmq._processes.client_connection import ask_owner, existing_store

if TYPE_CHECKING:
    from mqplug_rocksmq._care.damage import Finding, SurveyReport


@click.command()
@path_argument
@answer_timeout_option
@print_json_option
@click.pass_context
def check(context: click.Context, path: Path, timeout: float, as_json: bool) -> None:
    """Read everything in the store at PATH, and report damage. The exit code is 1 if there is any.

    If a process has the store open, a current snapshot is read, which consists of links beside it. A store on a
    read-only file system is read in place.
    """
    from mqplug_rocksmq._care.check import check_store

    path = existing_store(path, named=False)
    try:
        report = check_store(path)
    except AlreadyOpen:
        report = _of_open(path, timeout)
    if as_json:
        print_json({"sound": report.sound, **attrs.asdict(report)})
    else:
        _show(report)
    context.exit(0 if report.sound else 1)


def _of_open(path: Path, timeout: float) -> SurveyReport:
    from mqplug_rocksmq._care.check import check_name, check_store

    beside = path.parent if writable(path.parent) else None
    with tempfile.TemporaryDirectory(prefix=f".{path.name}-check-", dir=beside) as folder:
        copy = Path(folder) / "store"
        ask_owner(path, {"call": "backup", "path": str(copy)}, timeout)
        report = check_store(copy)
    check_name(path, report)
    return report


@click.command()
@path_argument
@click.option("--backup/--no-backup", default=True, show_default=True, help="Keep the damaged database.")
@print_json_option
@click.pass_context
def repair(context: click.Context, path: Path, backup: bool, as_json: bool) -> None:
    """Salvage the sound parts of the damaged store at PATH, and report exactly which messages are gone.

    No process may have the store open. The sound parts are copied, so as much disk space must be free. Messages keep
    their ids: readers skip missing messages like a gap. The exit code is 0 if the store is sound afterwards.
    """
    from mqplug_rocksmq._care.check import check_store
    from mqplug_rocksmq._care.repair import repair_store

    if not path.is_dir():
        existing_store(path)
    done = repair_store(path, backup=backup)
    sound = check_store(path)
    if as_json:
        print_json({"sound": sound.sound, "damaged": done.damaged and str(done.damaged), **attrs.asdict(done.report)})
    else:
        _show_repaired(done.report, done.damaged)
    context.exit(0 if sound.sound else 1)


def _show_repaired(report: SurveyReport, damaged: Path | None) -> None:
    _show(report)
    if report.sound:
        return
    gone = sum(each.stop - each.start for each in report.findings if each.start is not None and each.stop is not None)
    click.echo(f"repaired: {report.messages} messages are kept, {gone} are gone")
    if damaged is not None:
        click.echo(f"the damaged store is kept in {damaged}")


def _show(report: SurveyReport) -> None:
    for finding in report.findings:
        click.echo(_line(finding))
    verdict = "sound" if report.sound else f"damaged: {len(report.findings)} findings"
    held = f"{report.topics} topics, {report.groups} groups, {report.messages} messages in {report.pages} pages"
    click.echo(f"{verdict} ({held})")


def _line(finding: Finding) -> str:
    where = "" if finding.topic is None else f"topic {finding.topic!r}, partition {finding.partition}: "
    if finding.start is None or finding.stop is None:
        return f"{where}{finding.what}"
    return f"{where}{finding.what}: {finding.start} to {finding.stop - 1}"


_target = click.argument("target", type=click.Path(path_type=Path))


@click.command()
@path_argument
@_target
@answer_timeout_option
def backup(path: Path, target: Path, timeout: float) -> None:
    """Copy the store at PATH, as it is at one moment, into the new directory TARGET.

    Programs can write at the same time. On the same file system the copy consists of links, and takes little time and
    space. Copy it to another disk to survive the loss of this one.
    """
    path, target = existing_store(path), target.absolute()
    if ask_owner(path, {"call": "backup", "path": str(target)}, timeout) is None:
        _back_up_closed(path, target)
    click.echo(f"backed up to {target}")


def _back_up_closed(path: Path, target: Path) -> None:
    from mqplug_rocksmq._care.backup import back_up_store
    from mqplug_rocksmq._processes.owner import close_store, open_store
    from mqplug_rocksmq._settings import RocksMQSettings

    store = open_store(path, RocksMQSettings(path=str(path)))
    try:
        back_up_store(store, target)
    finally:
        close_store(store)


@click.command()
@click.argument("source", type=click.Path(path_type=Path, exists=True, file_okay=False))
@_target
def restore(source: Path, target: Path) -> None:
    """Copy the backup SOURCE to the new directory TARGET, and check it."""
    from mqplug_rocksmq._care.backup import restore_backup

    restore_backup(source, target.absolute())
    click.echo(f"restored to {target}")
