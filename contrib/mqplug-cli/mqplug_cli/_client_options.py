"""The backend that a command line names, and a client for it.

The first argument may be a URL or a configuration file. Without one, a context or the environment decides.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import mqplug

if TYPE_CHECKING:
    from mqplug.introspection import Target

CLOSE_AFTER_FAILURE_S = 0.5
Opened = TypeVar("Opened", "mqplug.Client", "mqplug.Producer")
CONFIG_FILE_SUFFIXES = (".toml", ".yaml", ".yml")
_NO_URL = "mqplug.no_url"
_NAMING = (
    "Name the backend with a URL such as rocksmq:///path or kafka://host:9092 as the first argument, "
    "or with --context NAME"
)

timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="Give up after this many seconds.",
)
_URL = click.Argument(["url"], required=False, metavar="[URL]")
_context_option = click.option("--context", "context_name", metavar="NAME", help="Use this context of mqplug.toml.")
_ask_option = click.option(
    "--ask", multiple=True, metavar="SETTING", help="Prompt for a secret setting of the backend, such as password."
)


class ClientCommand(click.Command):
    """A command with an optional first argument: the URL of a backend, or a configuration file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line, without a URL if the first argument is not one."""
        options = [param for param in self.params if isinstance(param, click.Option)]
        words = click.Argument(["words"], nargs=-1)
        scratch = click.Command(self.name, params=[*options, words], context_settings=self.context_settings)
        parser = scratch.make_parser(ctx)
        found = parser.parse_args(list(args))[0].get("words")
        ctx.meta[_NO_URL] = not (isinstance(found, tuple | list) and found and is_target(found[0]))
        try:
            rest = super().parse_args(ctx, args)
        except click.UsageError as error:
            if "extra argument" in error.message:
                raise click.UsageError(f"{error.message}. {_NAMING}", ctx) from None
            raise
        ctx.params.setdefault("url", None)
        return rest

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, without the URL if this command line has none."""
        params = super().get_params(ctx)
        return [each for each in params if each is not _URL] if ctx.meta.get(_NO_URL) else params

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the parts of the usage line, which always names the URL."""
        ctx.meta[_NO_URL] = False  # the usage ends the command, with its help or as an error
        return super().collect_usage_pieces(ctx)


class ClientOptions:
    """The options of a command line that concern the backend: where it is, secrets typed by the user, and a timeout.

    ``words`` are the arguments that name the backend, its URL or options. They contain no secret.
    """

    def __init__(self, target: Target, timeout: float, secrets: Mapping[str, str], words: tuple[str, ...] = ()) -> None:
        self.target = target
        self.timeout = timeout
        self.secrets = secrets
        self.words = words

    @property
    def label(self) -> str:
        """A short name of the backend for people: its URL without secrets, its file, or the name of its context."""
        from mqplug.introspection import shown

        if self.target is None:
            return "configured"
        return shown(self.target) if isinstance(self.target, str) else getattr(self.target, "name", str(self.target))

    def place(self) -> str:
        """Return the name and the address of the backend for people, without secrets."""
        from mqplug.introspection import address_fields, plan, without_logins

        made = plan(self.target, self.secrets)
        found = [getattr(made.settings, name) for name in address_fields(type(made.settings))]
        addresses = [each for value in found for each in (value if isinstance(value, list | tuple) else [value])]
        return " ".join([made.backend.name, ", ".join(without_logins(str(each)) for each in addresses)]).strip()

    @contextmanager
    def open(self, *, creates: bool = False) -> Iterator[mqplug.Client]:
        """Open a client for the block. After a failure, close it quickly so that Ctrl-C ends the command.

        A command that only reads does not create a missing store: a misspelt path is an error and leaves no trace.
        """
        opened = mqplug.connect(self.target, timeout=self.timeout, must_exist=not creates, **self.secrets)
        with closed_at_end(opened, self.timeout) as client:
            yield client


@contextmanager
def closed_at_end(opened: Opened, timeout: float) -> Iterator[Opened]:
    """Close a client or a producer after the block. After a failure, close it quickly and drop pending work."""
    try:
        yield opened
    except BaseException:
        with suppress(mqplug.Error):
            opened.close(CLOSE_AFTER_FAILURE_S)
        raise
    opened.close(timeout)


def client_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the URL and the options of a client to a ``ClientCommand``. Its function receives ``client``."""

    @wraps(function)
    def call(
        *args: Any, url: str | None, context_name: str | None, ask: tuple[str, ...], timeout: float, **rest: Any
    ) -> Any:
        context_name = context_name or click.get_current_context().find_root().params.get("context_name")
        if url is not None and context_name is not None:
            raise click.UsageError("Give a URL or --context, not both.")
        target = checked_target(url) if url is not None else target_of_context(context_name)
        words = words_of(url, context_name, ask)
        return function(*args, client=ClientOptions(target, timeout, asked(ask), words), **rest)

    for add in (timeout_option, _ask_option, _context_option):
        call = add(call)
    _params_of(call).append(_URL)
    return call


def is_target(text: str) -> bool:
    """Return whether a text is a URL, a path or the name of a configuration file. The name of a topic never is."""
    return "/" in text or text.endswith(CONFIG_FILE_SUFFIXES)


def checked_target(text: str) -> str | Path:
    """Return a URL, or the path of a configuration file. Reject a URL with a secret, which ``ps`` would show."""
    if "://" not in text:
        return Path(text) if text.endswith(CONFIG_FILE_SUFFIXES) else text
    if "?" not in text and "@" not in text:
        return text  # just an address: without secrets to check for, the plugin is looked up only once
    from mqplug.introspection import plan, secrets_of, shown, split_url

    try:
        safe = split_url(text)[0].password is None
        made = plan(text, {}).settings if safe else None
    except mqplug.Error:  # connect() will raise it again
        return text
    if safe and not secrets_of(type(made), made):
        return text
    raise click.UsageError(
        f"{shown(text)} contains a secret, which other users of this machine can see in the process list. Put it into "
        'a context or a configuration file, as "${VARIABLE}" if you like, or give --ask password'
    )


def target_of_context(name: str | None) -> Target:
    """Return the named or the chosen context, or None if the environment and mqplug.toml decide."""
    from mqplug.introspection import context_in_force

    return context_in_force(name, os.environ)


def words_of(url: str | None, context_name: str | None, ask: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments that name the same backend on another command line."""
    named = ("--context", context_name) if context_name is not None else ()
    return (*([url] if url is not None else []), *named, *(word for each in ask for word in ("--ask", each)))


def named_client(text: str, timeout: float) -> ClientOptions:
    """Return the backend that an option names: a URL, a configuration file, or the name of a context."""
    return ClientOptions(checked_target(text) if is_target(text) else target_of_context(text), timeout, {})


def asked(settings: tuple[str, ...]) -> dict[str, str]:
    """Prompt for secret settings without echoing them."""
    return {name: _ask(name) for name in settings}


def _ask(name: str) -> str:
    from getpass import getpass

    try:
        with Path("/dev/tty").open("rb"):
            pass
    except OSError:
        raise click.UsageError(f"--ask {name} needs a terminal. Use an environment variable or a file") from None
    return getpass(f"{name}: ")


def _params_of(function: Any) -> list[click.Parameter]:
    params: list[click.Parameter] = function.__dict__.setdefault("__click_params__", [])
    return params
