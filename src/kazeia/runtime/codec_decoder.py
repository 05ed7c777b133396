"""The codec decoder at work: codes in, samples out, any number of frames at a time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from kazeia.checkpoint.config import CodecDecoderConfig
from kazeia.errors import GenerationError, InputError
from kazeia.rope import rope_tables
from kazeia.runtime.session import BoundCall
from kazeia.runtime.threads import usable_cores
from kazeia.runtime.turns import Turns

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

_FRAMES_AT_ONCE = 8  # larger pieces win nothing more and cost memory
_ROPE_BLOCK = 512


class DecoderState:
    """What the decoder remembers of the frames so far: each layer's last inputs, and a frame count."""

    def __init__(self, shapes: Mapping[str, tuple[int, int]]) -> None:
        self.frames = 0
        self.current = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        self.spare = {name: np.empty(shape, np.float32) for name, shape in shapes.items()}

    def copy(self) -> DecoderState:
        """A state that goes on by itself from here."""
        twin = DecoderState({})
        twin.frames = self.frames
        twin.current = {name: array.copy() for name, array in self.current.items()}
        twin.spare = {name: np.empty_like(array) for name, array in self.current.items()}
        return twin


class CodecDecoder:
    """Codes → 24 kHz PCM; spec §5. Holds no state of its own: many threads may use one."""

    def __init__(
        self,
        session: ort.InferenceSession,
        config: CodecDecoderConfig,
        states: Mapping[str, tuple[int, int]],
    ) -> None:
        self._session = session
        self._config = config
        self._states = dict(states)
        self.samples_per_frame = config.samples_per_frame
        # Each call at work takes tens of megabytes, for good: more of them than cores would win nothing.
        self._turn = Turns(max(2, usable_cores()))

    def new_state(self) -> DecoderState:
        """The state before the first frame."""
        return DecoderState(self._states)

    def decode(self, codes: I64, state: DecoderState | None = None) -> F32:
        """Decode codes (frames, 16) to PCM (frames · 1920,) float32 in [−1, 1]; `state` moves on.

        The samples do not depend on how the frames are cut into calls. Zero frames give zero
        samples. Raises InputError for codes that no codebook has, GenerationError for NaN or
        infinite samples.
        """
        config = self._config
        codes = np.asarray(codes)
        if codes.dtype.kind not in "iu":
            raise InputError(f"codes are {codes.dtype}; expected integers")
        codes = np.ascontiguousarray(codes, np.int64)
        if codes.ndim != 2 or codes.shape[1] != config.num_quantizers:
            raise InputError(f"codes have shape {codes.shape}; expected (frames, {config.num_quantizers})")
        if codes.size and (codes.min() < 0 or codes.max() >= config.codebook_size):
            raise InputError(
                f"codes reach from {codes.min()} to {codes.max()}; expected 0 to {config.codebook_size - 1}"
            )
        state = state or self.new_state()
        pcm = np.empty(codes.shape[0] * self.samples_per_frame, np.float32)
        for start in range(0, codes.shape[0], _FRAMES_AT_ONCE):
            piece = codes[start : start + _FRAMES_AT_ONCE]
            first = start * self.samples_per_frame
            self._run(piece, state, pcm[first : first + piece.shape[0] * self.samples_per_frame])
        bad = int(np.count_nonzero(~np.isfinite(pcm)))
        if bad:
            raise GenerationError(
                f"the codec decoder produced {bad} samples of {pcm.size} that are NaN or infinite; "
                "the weights or the machine's arithmetic are broken (try `kazeia validate`)"
            )
        # Clamped only now: an infinite sample must not pass for a loud one.
        clamped: F32 = np.clip(pcm, -1, 1, out=pcm)
        return clamped

    def _run(self, codes: I64, state: DecoderState, pcm: F32) -> None:
        positions = state.frames + np.arange(codes.shape[0])
        cos, sin = self._angles(positions)
        window = self._config.sliding_window
        keys = positions[:, None] - (window - 1) + np.arange(window)  # (frames, window)
        mask = np.where(keys < 0, np.float32(-np.inf), np.float32(0))[:, None, None, :]
        inputs = {"codes": codes, "cos": cos, "sin": sin, "mask": mask}
        call = BoundCall(
            self._session,
            inputs | {f"state.{name}": array for name, array in state.current.items()},
            {"pcm": pcm} | {f"next.{name}": array for name, array in state.spare.items()},
        )
        with self._turn:
            call.run()
        state.current, state.spare = state.spare, state.current
        state.frames += codes.shape[0]

    def _angles(self, positions: I64) -> tuple[F32, F32]:
        """cos and sin (frames, head_dim / 2), from tables that are made in whole blocks."""
        theta, dim = self._config.rope_theta, self._config.head_dim
        first, last = positions[0] // _ROPE_BLOCK, positions[-1] // _ROPE_BLOCK
        blocks = [_rope_block(theta, dim, block) for block in range(first, last + 1)]
        rows = positions - first * _ROPE_BLOCK
        cos, sin = (np.concatenate(parts)[rows] for parts in zip(*blocks, strict=True))
        return cos, sin


@lru_cache(maxsize=64)
def _rope_block(theta: float, head_dim: int, block: int) -> tuple[F32, F32]:
    return rope_tables(theta, head_dim, block * _ROPE_BLOCK, (block + 1) * _ROPE_BLOCK)
