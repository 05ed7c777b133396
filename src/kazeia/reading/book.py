"""From a file to what is read aloud."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from kazeia.errors import EmptyTextError, TextError
from kazeia.reading.blocks import Block, plain_blocks
from kazeia.reading.markdown import front_matter, markdown_blocks
from kazeia.text.clean import decode_text, is_speakable

MARKDOWN_SUFFIXES = (".md", ".markdown", ".mdown", ".mkd")
_BINARY = {
    b"PK\x03\x04": "a ZIP archive, such as EPUB, DOCX or ODT",
    b"%PDF": "a PDF",
    b"{\\rtf": "RTF",
    b"\xd0\xcf\x11\xe0": "a document of Microsoft Office",
    b"\x1f\x8b": "compressed by gzip",
}


@dataclass(frozen=True)
class Book:
    """What is read aloud, in order."""

    blocks: tuple[Block, ...]
    title: str | None = None
    author: str | None = None


def open_book(path: str | os.PathLike[str], *, headings: bool = True) -> Book:
    """Read a text file in UTF-8; Markdown if its name says so (.md). See `parse_book`.

    Raises TextError for a file that cannot be read or is no text, TextEncodingError, EmptyTextError.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise TextError(f"cannot read the text from {path}: {error.strerror or error}") from error
    markdown = Path(path).suffix.lower() in MARKDOWN_SUFFIXES
    return parse_book(data, name=os.fspath(path), markdown=markdown, headings=headings)


def parse_book(
    text: str | bytes, *, name: str = "the text", markdown: bool = False, headings: bool = True
) -> Book:
    """Find the paragraphs and headings of a text; bytes are UTF-8, with or without byte order mark.

    Paragraphs are parted by empty lines; lines that were wrapped at a width are joined. Headings are lines
    such as "## The sea" and, standing alone, "Chapter 3" or "Chapitre III – La mer"; headings=False takes
    all for paragraphs (the marks are not spoken even so). What holds nothing to say is left out.
    Raises EmptyTextError when nothing is left, TextError and TextEncodingError for what is no text.
    """
    if isinstance(text, bytes):
        for start, kind in _BINARY.items():
            if text.startswith(start):
                raise TextError(f"{name}: this is {kind}, not a text; save it as plain text or Markdown")
        text = decode_text(text, name)
    fields, lines = front_matter(text.splitlines()) if markdown else ({}, text.splitlines())
    found = list(markdown_blocks(lines) if markdown else plain_blocks(lines))
    if not headings:
        found = [replace(block, level=0) for block in found]
    # A heading without words may still name a chapter; a paragraph without any is an ornament.
    kept = tuple(block for block in found if block.level or is_speakable(block.text))
    if not any(is_speakable(block.text) for block in kept):
        raise EmptyTextError(f"nothing to say: {name} holds no letter, number or sign that can be spoken")
    return Book(kept, fields.get("title"), fields.get("author"))
