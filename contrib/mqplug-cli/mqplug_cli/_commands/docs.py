"""``mqplug docs``: the documentation pages, without a web site."""

from __future__ import annotations

from difflib import get_close_matches

import click

from mqplug_cli._output.formats import Output, output_option

PAGE_COLUMNS = ("page", "about", "file")


@click.command()
@click.argument("page", required=False)
@output_option
def docs(page: str | None, output: Output) -> None:
    """Print a PAGE of the documentation, or list all.

    A page is named as in rules or contract-rules. The pages belong to the installed distributions, and match their
    versions.

    Examples:
      $ mqplug docs
      $ mqplug docs getting-started
    """
    from mqplug_cli._documentation import installed_pages, title_of

    found = installed_pages()
    if page is None:
        rows = [{"page": name, "about": title_of(path), "file": str(path)} for name, path in found.items()]
        output.rows(PAGE_COLUMNS, rows)
        return
    name = page.partition("#")[0].removesuffix(".md")
    if name not in found:
        near = get_close_matches(name, found, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else "'mqplug docs' lists them."
        raise click.BadParameter(f"there is no page {name!r}. {hint}", param_hint="PAGE")
    click.echo(found[name].read_text(encoding="utf-8"), nl=False)
