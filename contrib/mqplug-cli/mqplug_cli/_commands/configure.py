"""``mqplug context``, ``schema``, ``docs`` and ``completion``: help with configuring and using mqplug."""

from __future__ import annotations

import os
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

import mqplug
from mqplug_cli._output import Output, output_option

if TYPE_CHECKING:
    from importlib import metadata

PAGE_COLUMNS = ("page", "about", "file")
CORE_DISTRIBUTION: Final = "mqplug"
_INCLUDES: Final = "```{include}"


@click.group()
def context() -> None:
    """List, choose and show contexts.

    A context is a table [context.NAME] of mqplug.toml, in the working directory or in ~/.config/mqplug. It has a url,
    or a backend and its settings. --context NAME selects one for a single command, MQPLUG_CONTEXT for a shell.

    Examples:
      $ mqplug context list
      $ mqplug context use laptop
      $ mqplug context show laptop
    """


@context.command("list")
@output_option
def list_contexts(output: Output) -> None:
    """List the contexts."""
    from mqplug.introspection import chosen_context, contexts

    chosen = chosen_context(os.environ)
    rows = [
        {"name": each.name, "chosen": each.name == chosen, "file": each.file} for each in contexts(os.environ).values()
    ]
    output.rows(("name", "chosen", "file"), rows)


@context.command()
@click.argument("name", required=False)
@click.option("--none", is_flag=True, help="Choose no context: the environment and mqplug.toml decide.")
def use(name: str | None, none: bool) -> None:
    """Choose the context NAME for later commands."""
    from mqplug.introspection import choose_context, context_in_force

    if (name is None) != none:
        raise click.UsageError("Give the NAME of a context, or --none.")
    if name is not None:
        context_in_force(name, os.environ)
    choose_context(name, os.environ)
    click.echo("no context is chosen" if name is None else f"later commands use the context {name}")


@context.command()
@click.argument("name", required=False)
@output_option
def show(name: str | None, output: Output) -> None:
    """Show the settings of a context, by default the chosen one. Secrets are masked."""
    import attrs

    from mqplug.introspection import context_in_force, effective_settings

    found = effective_settings(context_in_force(name, os.environ))
    output.rows(("name", "value", "source"), [attrs.asdict(each) for each in found])


@click.command()
def schema() -> None:
    """Print the JSON Schema of mqplug.toml.

    It has a section for each installed backend.

    Examples:
      $ mqplug schema > mqplug.schema.json
    """
    from mqplug.introspection import inspect_plugins, schema_of, settings_class, sources

    rules = sources(None, {}).rules()
    names = [each.name for each in inspect_plugins(rules) if each.kind == "backend" and each.state == "ok"]
    Output("json").value(schema_of({name: settings_class(name, rules) for name in names}))


@click.command()
@click.argument("page", required=False)
@output_option
def docs(page: str | None, output: Output) -> None:
    """Print a PAGE of the documentation, or list the pages.

    PAGE is a name such as rules or contract-rules. The pages come with the installed distributions and match their
    versions.

    Examples:
      $ mqplug docs
      $ mqplug docs getting-started
    """
    found = installed_pages()
    if page is None:
        rows = [{"page": name, "about": title_of(path), "file": str(path)} for name, path in found.items()]
        output.rows(PAGE_COLUMNS, rows)
        return
    name = page.partition("#")[0].removesuffix(".md")
    if name not in found:
        near = get_close_matches(name, found, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else "'mqplug docs' lists all pages."
        raise click.BadParameter(f"unknown page {name!r}. {hint}", param_hint="PAGE")
    click.echo(found[name].read_text(encoding="utf-8"), nl=False)


def installed_pages() -> dict[str, Path]:
    """Return the pages by name, such as ``rules`` or ``mqplug-rocksmq/operations``. A checkout has its own pages."""
    from importlib import metadata

    found = {name: path for each in metadata.distributions() for name, path in _pages_of(each) if path.is_file()}
    if all("/" in name for name in found):  # the core is used from a checkout, whatever plugins are installed
        found |= _of_checkout(Path(mqplug.__file__).parents[1])
    return dict(sorted(found.items()))


def title_of(path: Path) -> str:
    """Return the first heading of a page."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), path.stem)


def _pages_of(distribution: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    owner = distribution.name
    if not owner.startswith(CORE_DISTRIBUTION):
        return
    for file in distribution.files or ():
        if file.suffix == ".md" and file.parts[-4:-1] == ("share", "doc", owner):
            name = file.stem.lower()
            yield (
                name if owner == CORE_DISTRIBUTION else f"{owner}/{name}",
                Path(str(distribution.locate_file(file))).resolve(),
            )


def _of_checkout(root: Path) -> dict[str, Path]:
    files = [*root.glob("docs/*.md"), root / "CHANGELOG.md", root / "COMPATIBILITY.md"]
    texts = [path for path in files if path.is_file() and not path.read_text(encoding="utf-8").startswith(_INCLUDES)]
    return {path.stem.lower(): path for path in texts}


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script for SHELL.

    Enable it with eval "$(mqplug completion bash)". It completes commands and options.

    Examples:
      $ mqplug completion bash > mqplug.bash
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click has no completion for {shell}")
    click.echo(kind(context.find_root().command, {}, "mqplug", "_MQPLUG_COMPLETE").source())
