"""Reading long texts aloud: chapters, subtitles, and going on where a killed reading stopped."""

from kazeia.reading.blocks import Block
from kazeia.reading.book import Book, open_book, parse_book
from kazeia.reading.plan import Style
from kazeia.reading.read import Reading, Spoken, read_book
from kazeia.reading.subtitles import SUBTITLES, Cue

__all__ = [
    "SUBTITLES",
    "Block",
    "Book",
    "Cue",
    "Reading",
    "Spoken",
    "Style",
    "open_book",
    "parse_book",
    "read_book",
]
