"""``mqplug completion``: prints a script for the completion of commands and options in a shell."""

from __future__ import annotations

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script for SHELL.

    Use it as in: eval "$(mqplug completion bash)". It completes commands and options.

    Examples:
      $ mqplug completion bash > mqplug.bash
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click has no completion for {shell}")
    click.echo(kind(context.find_root().command, {}, "mqplug", "_MQPLUG_COMPLETE").source())
