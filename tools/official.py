"""The official PyTorch package as a source of truth: runs it and hands out NumPy arrays.

Needs torch, transformers and qwen-tts (0.1.1). Nothing is re-implemented: prompts, the frame loop, the
logits processors and the codec are the package's own; hooks on its modules note what passes through.
Shared by tests/oracle.py and tools/dump_official.py.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import io
import os
import sys
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

PACKAGES = ("torch", "transformers", "qwen-tts", "numpy")


def available() -> bool:
    """Say whether the official package and torch are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("torch", "transformers", "qwen_tts"))


def versions() -> dict[str, str]:
    """Return the versions of the packages whose numbers these are."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}


# Libraries the package imports for its other tokenizer; the 12 Hz model never uses them.
_UNUSED = ("onnxruntime", "sox", "torchaudio", "torchaudio.compliance", "torchaudio.compliance.kaldi")


def _import() -> tuple[Any, Any]:
    """Import torch and the official wrapper class, quietly, with empty modules for what it never uses."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        import torch
        import transformers  # before the stand-ins, which it would take for the real libraries

        transformers.logging.set_verbosity_error()
        missing = [name for name in _UNUSED if not _installed(name.partition(".")[0])]
        for name in missing:
            sys.modules[name] = types.ModuleType(name)
        try:
            from qwen_tts import Qwen3TTSModel
        finally:
            for name in missing:
                sys.modules.pop(name, None)
    return torch, Qwen3TTSModel


def _installed(name: str) -> bool:
    return name in sys.modules or importlib.util.find_spec(name) is not None


@dataclass(frozen=True)
class Trace:
    """What the talker saw and said while it spoke one text greedily, one utterance, batch 1.

    With prompt length T0, trailing rows Z, width h, F frames, codec vocabulary V:
    """

    text_ids: np.ndarray
    """(N,) int64: the text's own ids X, without the template's (spec §2.4)."""
    prompt_rows: np.ndarray
    """(T0, h) float32: the talker's input for the prompt."""
    trailing_rows: np.ndarray
    """(Z, h) float32: text rows added frame by frame, at least one."""
    talker_inputs: np.ndarray
    """(F, h) float32: the talker's input after each frame: its 16 code vectors and one text row."""
    talker_hidden: np.ndarray
    """(T0 + F, h) float32, after the final norm; row T0 - 1 + f gives frame f."""
    talker_logits: np.ndarray
    """(F, V) float32: the head's raw output for frame f, before any processor."""
    prompt_logits: np.ndarray
    """(T0, V) float32: the head's raw output at each prompt position."""
    codes: np.ndarray
    """(F, 16) int64."""
    ended: bool
    """Whether the end token came before the limit."""

    @property
    def frame_hidden(self) -> np.ndarray:
        """(F, h): the hidden the code predictor starts from, frame by frame."""
        first = len(self.prompt_rows) - 1
        return self.talker_hidden[first : first + len(self.codes)]


class Official:
    """A checkpoint loaded by the official package, on the CPU.

    Args:
        folder: a checkpoint in the official layout.
        dtype: torch's name of the weights' type; the codec is always float32 (spec §5.4).
        local_pattern: keep the pre-tokeniser that transformers puts into tokenizers from local folders
            (spec §8.2); by default ids are those a hub download would give.
        threads: torch threads, or None to leave the setting alone.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        dtype: str = "float32",
        *,
        local_pattern: bool = False,
        threads: int | None = None,
    ) -> None:
        self.torch, wrapper = _import()
        if threads is not None:
            self.torch.set_num_threads(threads)
        with _quiet():
            self.wrapper = wrapper.from_pretrained(
                str(folder), dtype=getattr(self.torch, dtype), device_map="cpu"
            )
            if not local_pattern:
                from transformers import Qwen2TokenizerFast

                self.wrapper.processor.tokenizer = Qwen2TokenizerFast.from_pretrained(
                    str(folder), fix_mistral_regex=False
                )
        self.model = self.wrapper.model
        self.model.eval()
        self.decoder = self.model.speech_tokenizer.model.decoder.float().eval()
        self.config = self.model.config

    def token_ids(self, text: str) -> np.ndarray:
        """Return the ids of `text` in the utterance template, template included, int64."""
        return self._ids(self.wrapper._build_assistant_text(text)).numpy()[0]

    def instruct_ids(self, instruct: str) -> np.ndarray:
        """Return the ids of `instruct` in its template, int64."""
        return self._ids(self.wrapper._build_instruct_text(instruct)).numpy()[0]

    def trace(
        self,
        text: str,
        speaker: str | None = None,
        language: str = "Auto",
        instruct: str | None = None,
        *,
        non_streaming_mode: bool = True,
        frames: int = 8,
        force_instruct: bool = False,
        **options: Any,
    ) -> Trace:
        """Speak `text` greedily for at most `frames` frames and return what passed through the talker.

        The checkpoint's repetition penalty holds, as in the wrapper; `options` replace any argument of the
        official generate. `instruct` is dropped for "0b6" models as the wrapper does, unless
        `force_instruct`.
        """
        if self.config.tts_model_size == "0b6" and not force_instruct:
            instruct = None
        ids = self._ids(self.wrapper._build_assistant_text(text))
        guide = self._ids(self.wrapper._build_instruct_text(instruct)) if instruct else None
        settings = self.wrapper._merge_generate_kwargs(do_sample=False, subtalker_dosample=False)
        # The package drops the last code it samples at the limit (spec §2.5).
        settings |= {"max_new_tokens": frames + 1} | options

        steps: list[tuple[np.ndarray, np.ndarray]] = []
        heads: list[np.ndarray] = []
        trailing: list[np.ndarray] = []

        def see_model(_module: Any, _args: Any, given: dict[str, Any], result: Any) -> None:
            steps.append((_array(given["inputs_embeds"][0]), _array(result.last_hidden_state[0])))

        def see_talker(_module: Any, _args: Any, given: dict[str, Any], result: Any) -> None:
            heads.append(_array(result.logits[0]))
            trailing.append(_array(given["trailing_text_hidden"][0]))

        talker = self.model.talker
        hooks = [
            talker.model.register_forward_hook(see_model, with_kwargs=True),
            talker.register_forward_hook(see_talker, with_kwargs=True),
        ]
        try:
            with _quiet(), self.torch.inference_mode():
                codes, _ = self.model.generate(
                    input_ids=[ids],
                    instruct_ids=[guide],
                    languages=[language],
                    speakers=[speaker],
                    non_streaming_mode=non_streaming_mode,
                    **settings,
                )
        finally:
            for hook in hooks:
                hook.remove()

        count = len(codes[0])
        inputs = [rows for rows, _ in steps[1 : count + 1]]
        width = steps[0][0].shape[1]
        return Trace(
            text_ids=ids.numpy()[0, 3:-5],
            prompt_rows=steps[0][0],
            trailing_rows=trailing[0],
            talker_inputs=np.concatenate(inputs) if inputs else np.zeros((0, width), np.float32),
            talker_hidden=np.concatenate([hidden for _, hidden in steps[: count + 1]]),
            talker_logits=np.stack([rows[-1] for rows in heads[:count]]),
            prompt_logits=heads[0],
            codes=codes[0].numpy().astype(np.int64),
            ended=count < frames,
        )

    def predictor_logits(self, frame_hidden: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return the code predictor's logits (F, 15, V) float32 when it is fed the given codes.

        Args:
            frame_hidden: (F, h) float32, the talker's hidden that gave each frame (`Trace.frame_hidden`).
            codes: (F, 16) integers.
        """
        torch, talker = self.torch, self.model.talker
        known = torch.from_numpy(np.ascontiguousarray(codes, np.int64))
        hidden = torch.from_numpy(np.ascontiguousarray(frame_hidden)).to(talker.dtype)
        with _quiet(), torch.inference_mode():
            logits, _ = talker.forward_sub_talker_finetune(known, hidden)
        return _array(logits)

    def waveform(self, codes: np.ndarray) -> np.ndarray:
        """Return the decoder's samples (F * 1920,) float32 for codes (F, 16), decoded in one piece."""
        torch = self.torch
        known = torch.from_numpy(np.ascontiguousarray(codes, np.int64))
        with _quiet(), torch.inference_mode():
            return _array(self.decoder(known.T[None])[0, 0])

    def encode(self, samples: np.ndarray) -> np.ndarray:
        """Return the codes (T, 16) int64 of mono samples (n,) float32 at 24 kHz."""
        with _quiet(), self.torch.inference_mode():
            result = self.model.speech_tokenizer.encode(samples.astype(np.float32), sr=24000)
        return result.audio_codes[0].numpy().astype(np.int64)

    def speak(self, text: str, **options: Any) -> np.ndarray:
        """Return the samples of the public API end to end: generate_custom_voice or generate_voice_design."""
        with _quiet():
            waves, rate = getattr(self.wrapper, f"generate_{self.config.tts_model_type}")(text, **options)
        if rate != 24000:
            raise ValueError(f"the official package answered at {rate} Hz; expected 24000 Hz")
        return np.asarray(waves[0], np.float32)

    def _ids(self, text: str) -> Any:
        return self.wrapper._tokenize_texts([text])[0]


def _array(tensor: Any) -> np.ndarray:
    return tensor.detach().float().cpu().numpy().copy()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence Python warnings of other people's code; our tests turn warnings into errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
