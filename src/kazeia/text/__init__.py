"""From written text to token ids: checks, segments, languages and voices by name, the tokenizer."""

from kazeia.text._boundaries import is_wide
from kazeia.text.clean import check_text, decode_text, is_speakable
from kazeia.text.languages import resolve_language, resolve_voice
from kazeia.text.segments import MAX_CHARS, split_text
from kazeia.text.tokenizer import TextTokenizer

__all__ = [
    "MAX_CHARS",
    "TextTokenizer",
    "check_text",
    "decode_text",
    "is_speakable",
    "is_wide",
    "resolve_language",
    "resolve_voice",
    "split_text",
]
