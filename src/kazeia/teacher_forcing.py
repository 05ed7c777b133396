"""What the networks answer when the codes before are given, not chosen (teacher forcing)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kazeia.model import Model

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


def force_talker(model: Model, prompt_rows: F32, trailing: F32, pad: F32, codes: I64) -> tuple[F32, F32]:
    """Hidden states and raw logits of the talker along given codes; spec §2.5.

    prompt_rows: (T0, hidden). trailing: (Z, hidden), the text rows that go with the first frames; pad:
    (hidden,), with all others. codes: (F, 16). Returns hidden (T0 + F - 1, hidden) after the final
    norm, of which row T0 - 1 + f gives frame f, and logits (F, vocab).
    """
    state, hidden, logits = model.talker.prefill(prompt_rows, len(prompt_rows) + len(codes))
    hiddens, rows = [hidden.copy()], [logits.copy()]
    for frame, frame_codes in enumerate(codes[:-1]):
        text = trailing[frame] if frame < len(trailing) else pad
        hidden, step_logits = model.talker.step(state, (model.predictor.embed(frame_codes) + text)[None])
        hiddens.append(hidden.copy())
        rows.append(step_logits[0].copy())
    return np.concatenate(hiddens), np.stack(rows)


def force_predictor(model: Model, hidden: F32, codes: I64) -> F32:
    """Raw logits (F, 15, codebook) of the code predictor along given codes (F, 16); spec §3.2.

    hidden: (F, hidden), the talker's state that gave each frame.
    """
    return np.stack([model.predictor.logits(h, c) for h, c in zip(hidden, codes, strict=True)])
