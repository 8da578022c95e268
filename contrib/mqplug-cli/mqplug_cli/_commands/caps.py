"""``mqplug caps``: shows what a backend is able to do, and its limits."""

from __future__ import annotations

import click

from mqplug_cli._arguments.client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._output.formats import Output, output_option
from mqplug_cli._output.tables import show_table


@click.command(cls=ClientCommand)
@client_options
@output_option
def caps(client: ClientOptions, output: Output) -> None:
    """Show the capabilities of a backend, and its limits.

    Each capability is native, provided by the core in the same way on all backends, or absent.

    Examples:
      $ mqplug caps rocksmq:///tmp/mq
      $ mqplug caps rocksmq:///tmp/mq -o json
    """
    import attrs

    with client.open() as mq:
        name, values = mq.backend, attrs.asdict(mq.capabilities)
        support = {each: mq.support(each) for each, value in sorted(values.items()) if isinstance(value, bool)}
    limits = {each: value for each, value in values.items() if each not in support}
    if not output.for_people:
        output.value({"backend": name, "capabilities": support, "limits": limits})
        return
    show_table(("capability", "support"), [{"capability": each, "support": kind} for each, kind in support.items()])
    click.echo()
    show_table(("limit", "value"), [{"limit": each, "value": value} for each, value in limits.items()])
