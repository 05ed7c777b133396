"""From text, voice and language to the talker's input rows; spec §2.4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from kazeia.checkpoint.config import ModelConfig
from kazeia.row_table import RowTable
from kazeia.text.tokenizer import TextTokenizer

F32 = npt.NDArray[np.float32]
Layout = Literal["whole", "streamed"]
"""Whether the text stands whole in the prompt, or is added token by token to the frames."""


@dataclass(frozen=True)
class Prompt:
    """What the talker reads before the first frame, and the text it is fed along with the frames."""

    rows: F32  # (positions, hidden)
    trailing: F32  # (steps, hidden): row g goes with frame g
    pad: F32  # (hidden,): goes with every frame after those
    text_ids: tuple[int, ...]
    prefix: int = 0  # the first so many rows are the same for every text: instruction, voice, language

    def text_row(self, frame: int) -> F32:
        """The text term (hidden,) of the step that follows frame `frame`; spec §2.5."""
        row: F32 = self.trailing[frame] if frame < len(self.trailing) else self.pad
        return row


class PromptBuilder:
    """Builds prompts of one custom-voice model from its tokenizer and embedding tables."""

    def __init__(
        self, config: ModelConfig, tokenizer: TextTokenizer, text_rows: RowTable, codec_embedding: F32
    ) -> None:
        """`text_rows` (text vocab, hidden) already projected; `codec_embedding` (codec vocab, hidden)."""
        self._config = config
        self._tokenizer = tokenizer
        self._text = text_rows
        self._codec = codec_embedding

    @property
    def takes_instruct(self) -> bool:
        """The official code drops the instruction for the 0.6B model; spec §1.2."""
        return self._config.tts_model_size != "0b6"

    def language_id(self, language: str | None, voice: str) -> int | None:
        """The codec id of the language, None for auto; a dialect voice overrides auto and Chinese."""
        talker = self._config.talker
        dialect = talker.spk_is_dialect.get(voice)
        if dialect is not None and language in (None, "chinese"):
            return talker.codec_language_id[dialect]
        return None if language is None else talker.codec_language_id[language]

    def build(
        self,
        text: str,
        voice: str,
        language: str | None,
        instruct: str | None = None,
        layout: Layout = "whole",
    ) -> Prompt:
        """Rows for one utterance. `voice` and `language` are names the model lists, None is auto."""
        c, t = self._config, self._config.talker
        role_ids, text_ids = self._tokenizer.utterance(text)
        language_id = self.language_id(language, voice)
        if language_id is None:
            control = [t.codec_nothink_id, t.codec_think_bos_id, t.codec_think_eos_id]
        else:
            control = [t.codec_think_id, t.codec_think_bos_id, language_id, t.codec_think_eos_id]
        control.append(t.spk_id[voice])

        pad, bos, eos = self._text[[c.tts_pad_token_id, c.tts_bos_token_id, c.tts_eos_token_id]]
        codec_pad, codec_bos = self._codec[[t.codec_pad_id, t.codec_bos_id]]
        spoken = self._text[text_ids]  # (text, hidden)
        parts = [] if not instruct else [self._text[self._tokenizer.instruct(instruct)]]
        parts += [
            self._text[role_ids],
            pad + self._codec[control],
            (bos + codec_pad)[None],
        ]
        prefix = sum(map(len, parts))
        if layout == "whole":
            parts += [spoken + codec_pad, (eos + codec_pad)[None], (pad + codec_bos)[None]]
            trailing = pad[None]
        else:
            parts.append((spoken[0] + codec_bos)[None])
            trailing = np.concatenate([spoken[1:], eos[None]])
        return Prompt(np.concatenate(parts), trailing, pad, tuple(text_ids), prefix)
