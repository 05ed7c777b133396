"""The version, written once."""

from importlib.metadata import version

__version__ = version("kazeia")
