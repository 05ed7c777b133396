"""What was asked for, checked as far as that goes without the model: before any work."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

if TYPE_CHECKING:
    from kazeia import Engine, Sampling

STDIO = "-"


@dataclass
class Order:
    """How a text shall be spoken."""

    talker: dict[str, Any]  # changes to the talker's Sampling
    predictor: dict[str, Any]  # changes to the code predictor's
    official: bool
    speech: dict[str, Any]  # the rest of Engine.synthesize's arguments
    cancel: threading.Event = field(default_factory=threading.Event)

    def arguments(self, engine: Engine, on_frame: Callable[[int], None]) -> dict[str, Any]:
        """The keyword arguments of `Engine.synthesize` and `Engine.stream`."""
        return self.speech | self.sampling(engine) | {"cancel": self.cancel, "on_frame": on_frame}

    def sampling(self, engine: Engine) -> dict[str, Any]:
        """Those two of them that say how codes are drawn."""
        return {
            "sampling": self._sampling(engine, "sampling", self.talker),
            "predictor_sampling": self._sampling(engine, "predictor_sampling", self.predictor),
        }

    def _sampling(
        self, engine: Engine, which: Literal["sampling", "predictor_sampling"], changes: dict[str, Any]
    ) -> Sampling | Literal["official"] | None:
        choice: Literal["official"] | None = "official" if self.official else None
        if not changes:
            return choice
        settings = engine.talker_sampling if which == "sampling" else engine.predictor_sampling
        return settings(choice).replace(**changes)


def make_order(
    *, talker: dict[str, Any], predictor: dict[str, Any], official: bool, seed: int | None, **speech: Any
) -> Order:
    """An order, refused by the command line's names. talker, predictor: None is what was not given."""
    from kazeia.random import check_seed

    return Order(
        talker=_checked(talker, "--"),
        predictor=_checked(predictor, "--cp-"),
        official=official,
        speech=speech | {"seed": None if seed is None else check_seed(seed)},
    )


def checked_pause(option: str, milliseconds: float) -> float:
    """The pause, if it may be so long."""
    from kazeia.text.pauses import check_pause

    check_pause(option, milliseconds)
    return milliseconds


def read_text(text: str | None, file: Path | None, *, markup: bool) -> str:
    """The text from whichever entrance was used, decoded and checked alike."""
    from kazeia.errors import TextError

    if file is not None and text is not None:
        raise typer.BadParameter("both TEXT and --file were given; give one")
    if file is not None and str(file) != STDIO:
        try:
            data, name = file.read_bytes(), str(file)
        except OSError as error:
            raise TextError(f"cannot read the text from {file}: {error.strerror or error}") from error
    elif text is not None and text != STDIO:
        # Bytes that were not UTF-8 arrive as lone surrogates; this brings them back.
        data, name = text.encode("utf-8", "surrogateescape"), "TEXT"
    else:
        if sys.stdin is None or (text is None and file is None and sys.stdin.isatty()):
            raise typer.BadParameter('what should be said? give TEXT, --file FILE, or "-" for standard input')
        data, name = sys.stdin.buffer.read(), "standard input"
    return checked_text(data, name, markup=markup)


def checked_text(data: bytes, name: str, *, markup: bool) -> str:
    """Bytes as a text that can be spoken."""
    from kazeia.text.clean import check_text, decode_text
    from kazeia.text.pauses import check_markup

    decoded = decode_text(data, name)
    check_text(decoded)
    if markup:
        check_markup(decoded)
    return decoded


def _checked(options: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The options that were given, refused by their command-line names."""
    from kazeia.errors import OptionError
    from kazeia.sampling import Sampling

    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        try:
            Sampling().replace(**{name: value})
        except OptionError as error:
            raise OptionError(f"{prefix}{name.replace('_', '-')}: {error}") from None
    return given
