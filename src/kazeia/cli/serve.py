"""`kazeia serve`: the HTTP server."""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from kazeia.cli.guard import guarded, note
from kazeia.cli.options import CacheDir, Debug, Model, Quant, Quiet, Threads
from kazeia.cli.progress import Display

if TYPE_CHECKING:
    from kazeia import Engine
    from kazeia.server.settings import ServerSettings

# The defaults are those of ServerSettings, which is not imported for --help.
_Count = Optional[int]  # noqa: UP045
_Words = Optional[list[str]]  # noqa: UP045


def serve(
    model: Model = None,
    host: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--host", metavar="ADDRESS", help="Where to listen. Default: 127.0.0.1, this machine."),
    ] = None,
    port: Annotated[
        _Count, typer.Option("--port", "-p", metavar="N", help="TCP port; 0 is a free one. Default: 8000.")
    ] = None,
    wyoming_port: Annotated[
        _Count,
        typer.Option(
            "--wyoming-port", metavar="N", help="Serve Home Assistant on this port too (often 10200)."
        ),
    ] = None,
    wyoming_announce: Annotated[
        bool, typer.Option("--wyoming-announce", help="Let Home Assistant find that port by itself.")
    ] = False,
    quant: Quant = "q8",
    threads: Threads = None,
    cache_dir: CacheDir = None,
    api_key: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--api-key",
            envvar="KAZEIA_API_KEY",
            show_envvar=False,
            metavar="KEY",
            help="Key that requests must bring. Default: KAZEIA_API_KEY, which `ps` does not show.",
        ),
    ] = None,
    max_concurrent: Annotated[
        _Count, typer.Option("--max-concurrent", metavar="N", help="Requests that speak at once. Default: 8.")
    ] = None,
    max_queue: Annotated[
        _Count,
        typer.Option("--max-queue", metavar="N", help="Requests that may wait; then 503. Default: 32."),
    ] = None,
    time_limit: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--time-limit", metavar="S", help="Seconds for a request in all. Default: 300."),
    ] = None,
    grace: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--grace", metavar="S", help="Seconds to finish in when stopped. Default: 30."),
    ] = None,
    max_text: Annotated[
        _Count, typer.Option("--max-text", metavar="N", help="Characters of a text. Default: 4096.")
    ] = None,
    max_body: Annotated[
        _Count, typer.Option("--max-body", metavar="N", help="Bytes of a request. Default: 65536.")
    ] = None,
    rate_limit: Annotated[
        _Count, typer.Option("--rate-limit", metavar="N", help="Requests a minute per client. Default: none.")
    ] = None,
    cors_origin: Annotated[
        _Words,
        typer.Option(
            "--cors-origin", metavar="URL", help='Site whose pages may call; repeatable; "*" is any.'
        ),
    ] = None,
    allowed_host: Annotated[
        _Words,
        typer.Option("--allowed-host", metavar="NAME", help="Host name to answer to; repeatable."),
    ] = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Serve speech over HTTP, as OpenAI's clients ask for it; stops on Ctrl-C or SIGTERM."""
    with guarded(debug):
        _refuse_missing_packages(wyoming_port is not None)
        import kazeia
        from kazeia.server.settings import ServerSettings

        given: dict[str, Any] = {
            "host": host,
            "port": port,
            "wyoming_port": wyoming_port,
            "wyoming_announce": wyoming_announce,
            "api_key": api_key,
            "max_concurrent": max_concurrent,
            "max_queue": max_queue,
            "time_limit_s": time_limit,
            "grace_s": grace,
            "max_text_chars": max_text,
            "max_body_bytes": max_body,
            "rate_limit": rate_limit,
            "cors_origins": tuple(cors_origin) if cors_origin else None,
            "allowed_hosts": tuple(allowed_host) if allowed_host else None,
        }
        settings = ServerSettings().replace(**{k: v for k, v in given.items() if v is not None})
        with Display(quiet) as display:
            engine = kazeia.load(
                model, quant=quant, threads=threads, cache_dir=cache_dir, progress=display.loading
            )
        with engine:
            _serve(engine, settings, quiet)


def _serve(engine: Engine, settings: ServerSettings, quiet: bool) -> None:
    from kazeia.server.app import create_app
    from kazeia.server.listening import address_of, listen
    from kazeia.server.run import make_server

    level = logging.WARNING if quiet else logging.INFO
    logging.basicConfig(stream=sys.stderr, level=level, format="kazeia: %(message)s")
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)  # its greeting says what ours does
    with contextlib.ExitStack() as stack:
        sock = stack.enter_context(listen(settings.host, settings.port))
        wyoming = None
        if settings.wyoming_port is not None:
            wyoming = stack.enter_context(listen(settings.host, settings.wyoming_port))
        address = address_of(sock)
        note(f"serving {engine.name} ({engine.quant}) at {address}; stop with Ctrl-C")
        if wyoming is not None:
            note(f"Wyoming at {address_of(wyoming, 'tcp')}")
            if settings.api_key is not None:
                note("the Wyoming protocol knows no keys: whoever reaches its port may speak", "warning")
        if engine.is_random and not quiet:
            note("this model's weights are random numbers, so the sound is noise, not speech")
        if settings.hosts is None and settings.api_key is None:
            note("anyone who can reach this address may use it; set an API key to change that", "warning")
        app = create_app(engine, settings, wyoming)
        make_server(app, access_log=not quiet).run(sockets=[sock])


def _refuse_missing_packages(wyoming: bool) -> None:
    from importlib.util import find_spec

    from kazeia.errors import MissingDependencyError

    names = ["starlette", "uvicorn", "prometheus_client", "websockets"]
    names += ["wyoming", "zeroconf"] if wyoming else []
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise MissingDependencyError(
            f'serving needs {", ".join(missing)}, which is not installed; run: pip install "kazeia[server]"'
        )
