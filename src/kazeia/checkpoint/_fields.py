"""Typed reading of JSON objects, with errors that name the file and the key path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kazeia.errors import ConfigError


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a UTF-8 file; a byte order mark and CRLF line ends are tolerated.

    Raises ConfigError when the file cannot be read, is not UTF-8, not JSON, or not an object.
    """
    try:
        value = json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}; fetch the file again") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid JSON ({error}); fetch the file again") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: found a JSON {_kind(value)}, expected an object {{…}}")
    return value


def _kind(value: object) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "list", dict: "object"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "…"


class Fields:
    """One JSON object, the file it came from and the path of keys that leads to it."""

    def __init__(self, data: object, file: str, path: str = "") -> None:
        self.file = file
        self.path = path
        if not isinstance(data, Mapping):
            raise self.error("", f"found {_kind(data)}, expected an object")
        self.data = data

    def error(self, key: str, problem: str) -> ConfigError:
        """A ConfigError about `key` ("" for the object itself)."""
        where = ".".join(part for part in (self.path, key) if part)
        return ConfigError(f"{self.file}: {where}: {problem}" if where else f"{self.file}: {problem}")

    def has(self, key: str) -> bool:
        """True when the key is there and not null."""
        return self.data.get(key) is not None

    def raw(self, key: str) -> Any:
        """The value as it stands; None when it is absent."""
        return self.data.get(key)

    def _required(self, key: str) -> Any:
        if key not in self.data:
            raise self.error(key, "missing; this key is required")
        return self.data[key]

    def _wrong(self, key: str, value: object, expected: str) -> ConfigError:
        return self.error(key, f"found {_shown(value)} ({_kind(value)}), expected {expected}")

    def child(self, key: str) -> Fields:
        """The object under `key`."""
        value = self._required(key)
        if not isinstance(value, Mapping):
            raise self._wrong(key, value, "an object")
        return Fields(value, self.file, f"{self.path}.{key}" if self.path else key)

    def integer(self, key: str, minimum: int = 1) -> int:
        """An integer of at least `minimum`."""
        value = self._required(key)
        if type(value) is not int or value < minimum:
            raise self._wrong(key, value, f"an integer of at least {minimum}")
        return value

    def token(self, key: str, size: int) -> int:
        """An id in a table of `size` rows."""
        value = self.integer(key, 0)
        if value >= size:
            raise self.error(key, f"found {value}, expected an id below the table's {size} rows")
        return value

    def positive(self, key: str) -> float:
        """A number above zero, as a float."""
        value = self._required(key)
        if type(value) not in (int, float) or not 0 < value < float("inf"):
            raise self._wrong(key, value, "a number above 0")
        return float(value)

    def text(self, key: str) -> str:
        """A string."""
        value = self._required(key)
        if not isinstance(value, str):
            raise self._wrong(key, value, "a string")
        return value

    def integers(self, key: str) -> tuple[int, ...]:
        """A list, not empty, of integers above zero."""
        value = self._required(key)
        if not isinstance(value, list) or not value or any(type(n) is not int or n < 1 for n in value):
            raise self._wrong(key, value, "a list of integers above 0")
        return tuple(value)

    def ids(self, key: str, size: int, *, required: bool = True) -> dict[str, int]:
        """An object of names to ids in a table of `size` rows; absent or null is {} unless required."""
        if not required and not self.has(key):
            return {}
        child = self.child(key)
        return {name: child.token(name, size) for name in child.data}

    def maybe_integer(self, key: str) -> int | None:
        """An integer, or None when absent or null."""
        value = self.raw(key)
        if value is not None and type(value) is not int:
            raise self._wrong(key, value, "an integer")
        return value

    def maybe_number(self, key: str) -> float | None:
        """A number as a float, or None when absent or null."""
        value = self.raw(key)
        if value is None:
            return None
        if type(value) not in (int, float):
            raise self._wrong(key, value, "a number")
        return float(value)

    def maybe_boolean(self, key: str) -> bool | None:
        """A boolean, or None when absent or null."""
        value = self.raw(key)
        if value is not None and type(value) is not bool:
            raise self._wrong(key, value, "true or false")
        return value
