"""The codec decoder's second half, computed rather than trained: slot parameters in, waveform out.

From `upsample.0` on, the official decoder (spec §5.2) holds weights that make it a harmonic synthesiser with a noise
path. What `pre_transformer` must deliver per frame is small (`LATENT` numbers):

* per slot, the mel cepstrum and the voicing (SHAPE numbers); a small network, trained alone (`codec.py net`) and placed in
  the first ConvNeXt block, makes of it R complex numbers e: the voiced spectrum at the multiples n of 12.5 Hz is X = E e;
* per slot, 4 numbers g: the noise's amplitude response sum_b g_b cos(b w);
* one of the pitch numbers K as a one-hot, and a constant 1.

How: the upsampling convolutions part the four slots and rotate e by i^(n j), the phase that harmonic n has at slot j (four
copies, n mod 4). The second ConvNeXt block forms A + iB = X for every n, in pairs GELU(a + o) - GELU(o - a) = 2 a, and
shuts, by the offset o, those n that k does not divide. Its output is u, the waveform of a slot in a 216-dimensional basis; the transposed convolutions unfold
it into samples (polyphase). Noise: a fixed white pattern per slot, times the gains by sin a · sin b = sin²((a+b)/2) - sin²((a-b)/2)
in two snakes. All other snakes are so flat that they are the identity. Everything stays trainable.
"""

from __future__ import annotations

from dataclasses import dataclass

import common
import numpy as np
import vocoder

RANK = 24
PITCHES = tuple(range(10, 25))
TOP = 380  # highest multiple of 12.5 Hz in the voiced part: 4.75 kHz
GAINS = 4
SHAPE = 41  # normalised mel cepstrum (40) and voicing of a slot
BLOCK = SHAPE + GAINS
GIVEN = common.SLOTS * BLOCK + len(PITCHES) + 1  # channels of the frame latents that carry something
LATENT = 288
UNITS = 4 * LATENT // 2  # hidden units of a slot's shape-to-spectrum network
WIDTH = 256  # decoder_dim
BASIS = 216
FADE = 60
SPAN = common.SLOT + FADE
COPIES = 8 * RANK
AT_PITCH = COPIES
# What must outlive the harmonics' block stands behind the channels that u is written over.
AT_GAIN, AT_SLOT, AT_LEVEL = LATENT - 11, LATENT - 7, LATENT - 3  # level: +C, -C, balance
if AT_PITCH + len(PITCHES) > AT_GAIN or BASIS > AT_GAIN:
    raise ValueError("the channels do not suffice: raise RANK or lower BASIS")
LEVEL, LOUD = 300.0, 1e4
OPEN, SHUT = (
    6.0,
    -8.0,
)  # offsets of a hidden pair: GELU(a + o) - GELU(o - a) is 2 a for o > 3 and 0 for o < -5
FLAT = -12.0
NOISE_W = 0.1
HARMONICS = np.array([n for n in range(min(PITCHES), TOP + 1) if any(n % k == 0 for k in PITCHES)])
_BIN = HARMONICS * 12.5 / (common.RATE / vocoder.FFT)


def _at_harmonics(matrix: np.ndarray) -> np.ndarray:
    """(rows, BINS) -> (rows, harmonics), linear between bins."""
    low = np.floor(_BIN).astype(int)
    w = _BIN - low
    return matrix[:, low] * (1 - w) + matrix[:, low + 1] * w


_RESPONSE = _at_harmonics(vocoder.MINIMUM_PHASE.astype(np.complex128))
_SHARE = _at_harmonics(vocoder.BAND_TO_BINS)
EMPHASIS = 1.0 + HARMONICS * 12.5 / 700.0
_OMEGA = np.linspace(0.0, np.pi, vocoder.BINS)
_COS = np.cos(np.arange(GAINS)[:, None] * _OMEGA[None])


def voiced_spectrum(mc: np.ndarray, ap: np.ndarray, voiced: np.ndarray, pitch: np.ndarray) -> np.ndarray:
    """Slots: (n, ORDER), (n, BANDS), (n,) 0…1, (n,) pitch numbers -> X (n, harmonics) complex."""
    noise = np.exp(np.minimum(ap @ _SHARE, 0.0))
    level = 2.0 / np.sqrt(common.FRAME / pitch) * voiced
    return np.exp(mc @ _RESPONSE) * np.sqrt(np.maximum(1.0 - noise**2, 0.0)) * level[:, None]


def noise_gains(mc: np.ndarray, ap: np.ndarray, voiced: np.ndarray) -> np.ndarray:
    """-> g (n, GAINS), least squares on the amplitude response, relative to its level."""
    share = np.exp(np.minimum(ap @ vocoder.BAND_TO_BINS, 0.0))
    # Above the voiced part's top everything is noise.
    high = np.clip((_OMEGA / np.pi * 12_000 - 4500.0) / 1000.0, 0.0, 1.0)[None]
    share = share * (1 - high) + high
    response = np.exp(mc @ vocoder.LOG_SPECTRUM) * (share * voiced[:, None] + (1 - voiced[:, None]))
    weight = 1.0 / (response + 0.3 * response.mean(1, keepdims=True) + 1e-7)
    normal = np.einsum("nf,af,bf->nab", weight**2, _COS, _COS) + 1e-9 * np.eye(GAINS)
    right = np.einsum("nf,af->na", weight**2 * response, _COS)
    return np.linalg.solve(normal, right[..., None])[..., 0]


@dataclass
class Basis:
    """E (harmonics, RANK) complex, so that X = E e; `scale` brings e and g to about 1."""

    e: np.ndarray
    inverse: np.ndarray
    scale: float
    gain_scale: float
    mean: np.ndarray  # of mc, (SHAPE - 1,)
    deviation: np.ndarray

    @staticmethod
    def fit(mc: np.ndarray, ap: np.ndarray, pitch: np.ndarray) -> Basis:
        x = voiced_spectrum(mc, ap, np.ones(len(mc)), pitch) * EMPHASIS
        unit = x / (np.linalg.norm(x, axis=1, keepdims=True) + 1e-4)
        left = np.linalg.eigh(unit.T @ unit.conj())[1][:, : -RANK - 1 : -1]  # (harmonics, RANK)
        inverse = left.conj() * EMPHASIS[:, None]
        scale = float(np.sqrt((np.abs(x @ left.conj()) ** 2).mean()))
        gains = noise_gains(mc, ap, np.zeros(len(mc)))
        return Basis(left * scale / EMPHASIS[:, None], inverse / scale, scale, float(np.sqrt((gains**2).mean())),
                     mc[:, : SHAPE - 1].mean(0), mc[:, : SHAPE - 1].std(0))  # fmt: skip

    def save(self, path: str) -> None:
        np.savez(
            path,
            e=self.e,
            inverse=self.inverse,
            scale=self.scale,
            gain_scale=self.gain_scale,
            mean=self.mean,
            deviation=self.deviation,
        )

    @staticmethod
    def load(path: str) -> Basis:
        with np.load(path) as z:
            return Basis(
                z["e"], z["inverse"], float(z["scale"]), float(z["gain_scale"]), z["mean"], z["deviation"]
            )

    def spectrum(self, mc: np.ndarray, ap: np.ndarray, voiced: np.ndarray) -> np.ndarray:
        """-> (n, 2 RANK): Re e, Im e, at a middle pitch; what the first ConvNeXt block makes of `shape`."""
        e = voiced_spectrum(mc, ap, voiced, np.full(len(mc), 17)) @ self.inverse
        return np.concatenate([e.real, e.imag], 1)

    def shape(self, mc: np.ndarray, voiced: np.ndarray) -> np.ndarray:
        """-> (n, SHAPE)"""
        return np.concatenate(
            [(mc[:, : SHAPE - 1] - self.mean) / self.deviation, 2.0 * voiced[:, None] - 1.0], 1
        )

    def latents(self, mc: np.ndarray, ap: np.ndarray, voiced: np.ndarray, pitch: np.ndarray) -> np.ndarray:
        """Slots (4 frames, …) and pitch per frame -> (frames, GIVEN), what `pre_transformer` must deliver."""
        frames = len(pitch)
        k = np.clip(pitch, PITCHES[0], PITCHES[-1])
        g = noise_gains(mc, ap, voiced) / self.gain_scale
        slots = np.concatenate([self.shape(mc, voiced), g], 1).reshape(frames, common.SLOTS * BLOCK)
        return np.concatenate([slots, np.eye(len(PITCHES))[k - PITCHES[0]], np.ones((frames, 1))], 1)


def _zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def _complex_block(real: np.ndarray, imag: np.ndarray) -> np.ndarray:
    """Multiplication by the scalar real + i·imag on (Re, Im) stacked vectors: (2R, 2R), row = input."""
    eye = np.eye(RANK)
    return np.block([[real * eye, imag * eye], [-imag * eye, real * eye]])


def weights(basis: Basis, net: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All tensors from `upsample.0` on, names without the leading "decoder.".

    net: the shape-to-spectrum network, w1 (UNITS, SHAPE), b1, w2 (2 RANK, UNITS), b2; GELU between.
    """
    w: dict[str, np.ndarray] = {}
    two, four = 2 * RANK, common.SLOTS
    pitch_in, one = four * BLOCK, four * BLOCK + len(PITCHES)
    # After upsample.0, two slots a step: e of both (still 0), their shapes, gains, pitch, half of the frame, levels.
    shapes, gains, pitches = 2 * two, 2 * two + 2 * SHAPE, 2 * two + 2 * BLOCK
    halves, levels = pitches + len(PITCHES), LATENT - 3
    up, bias = _zeros(LATENT, LATENT, 2), _zeros(LATENT)
    for j0 in range(2):
        for j1 in range(2):
            source = (2 * j0 + j1) * BLOCK
            up[source : source + SHAPE, shapes + j1 * SHAPE : shapes + (j1 + 1) * SHAPE, j0] = np.eye(SHAPE)
            up[source + SHAPE : source + BLOCK, gains + j1 * GAINS : gains + (j1 + 1) * GAINS, j0] = np.eye(
                GAINS
            )
        up[pitch_in:one, pitches : pitches + len(PITCHES), j0] = np.eye(len(PITCHES))
        up[one, halves + j0, j0] = 1.0
    up[:, levels + 2, :] = -up.sum(1)
    bias[levels], bias[levels + 1] = LEVEL, -LEVEL
    w["upsample.0.0.conv.weight"], w["upsample.0.0.conv.bias"] = up, bias
    # upsample.1, one slot a step: four copies of e, rotated by i^(c j1).
    up = _zeros(LATENT, LATENT, 2)
    bias = _zeros(LATENT)
    for j1 in range(2):
        for c in range(4):
            turn = 1j ** (c * j1)
            up[j1 * two : (j1 + 1) * two, c * two : (c + 1) * two, j1] = _complex_block(turn.real, turn.imag)
        up[gains + j1 * GAINS : gains + (j1 + 1) * GAINS, AT_GAIN : AT_GAIN + GAINS, j1] = np.eye(GAINS)
        up[pitches : pitches + len(PITCHES), AT_PITCH : AT_PITCH + len(PITCHES), j1] = np.eye(len(PITCHES))
        for j0 in range(2):
            up[halves + j0, AT_SLOT + 2 * j0 + j1, j1] = 1.0
    # Large opposite constants make the LayerNorm a fixed scale; the balance keeps its mean at zero.
    up[:, AT_LEVEL + 2, :] = -up.sum(1)
    bias[AT_LEVEL], bias[AT_LEVEL + 1] = LEVEL, -LEVEL
    w["upsample.1.0.conv.weight"], w["upsample.1.0.conv.bias"] = up, bias
    for i in range(2):
        p = f"upsample.{i}.1."
        taps = _zeros(LATENT, 1, 7)
        taps[:, 0, 6] = 1.0
        w[p + "dwconv.conv.weight"], w[p + "dwconv.conv.bias"] = taps, _zeros(LATENT)
        w[p + "norm.weight"] = np.full(LATENT, LEVEL * np.sqrt(2.0 / LATENT), np.float32)
        w[p + "norm.bias"] = _zeros(LATENT)
        w[p + "pwconv1.weight"], w[p + "pwconv1.bias"] = _zeros(4 * LATENT, LATENT), _zeros(4 * LATENT)
        w[p + "pwconv2.weight"], w[p + "pwconv2.bias"] = _zeros(LATENT, 4 * LATENT), _zeros(LATENT)
        w[p + "gamma"] = np.ones(LATENT, np.float32)
    p = "upsample.0.1."
    for j1 in range(2):
        units = slice(j1 * UNITS, (j1 + 1) * UNITS)
        w[p + "pwconv1.weight"][units, shapes + j1 * SHAPE : shapes + (j1 + 1) * SHAPE] = net["w1"]
        w[p + "pwconv1.bias"][units] = net["b1"]
        w[p + "pwconv2.weight"][j1 * two : (j1 + 1) * two, units] = net["w2"]
        w[p + "pwconv2.bias"][j1 * two : (j1 + 1) * two] = net["b2"]
    _harmonics(w, basis)
    _unfold(w, basis)
    return w


def _harmonics(w: dict[str, np.ndarray], basis: Basis) -> None:
    p = "upsample.1.1."
    one, bias, two = w[p + "pwconv1.weight"], w[p + "pwconv1.bias"], w[p + "pwconv2.weight"]
    tau = np.arange(SPAN)
    window = np.minimum(1.0, np.minimum((tau + 0.5) / FADE, (SPAN - tau - 0.5) / FADE))
    angle = 2 * np.pi * HARMONICS[None] * tau[:, None] / common.FRAME
    unfolded = np.concatenate([np.cos(angle), -np.sin(angle)], 1) * window[:, None]
    left, size, right = np.linalg.svd(unfolded, full_matrices=False)
    w["_basis"] = left[:, :BASIS].astype(np.float32)
    project = (size[:, None] * right)[:BASIS]  # u = project @ [A; B]
    h = 0
    for i, n in enumerate(HARMONICS):
        copy = (n % 4) * 2 * RANK
        e = basis.e[i]
        real = np.concatenate([e.real, -e.imag])
        imag = np.concatenate([e.imag, e.real])
        # Odd harmonics turn their sign in the second half of the frame: units of their own, opened by the slot number.
        for part in (None,) if n % 2 == 0 else (0, 1):
            for unit, (row, sign) in enumerate(((real, 1), (real, -1), (imag, 1), (imag, -1))):
                one[h, copy : copy + 2 * RANK] = sign * row * 10.0
                one[h, AT_PITCH : AT_PITCH + len(PITCHES)] = [(OPEN - SHUT) * (n % k == 0) for k in PITCHES]
                bias[h] = SHUT
                if part is not None:
                    one[h, AT_SLOT + 2 * part : AT_SLOT + 2 * part + 2] = OPEN - SHUT
                    bias[h] = 2 * SHUT - OPEN
                column = project[:, i if unit < 2 else len(HARMONICS) + i]
                two[:BASIS, h] = sign * column * LOUD / 20.0 * (-1.0 if part == 1 else 1.0)
                h += 1


def _unfold(w: dict[str, np.ndarray], basis: Basis) -> None:
    """decoder.0 … decoder.6: u, gains and slot number -> samples."""
    left = w.pop("_basis")
    rng = np.random.default_rng(common.SEED)
    first = _zeros(WIDTH, LATENT, 7)
    gains, slots = BASIS, BASIS + GAINS
    first[:BASIS, :BASIS, 6] = np.eye(BASIS) / LOUD
    first[gains:slots, AT_GAIN : AT_GAIN + GAINS, 6] = np.eye(GAINS) * basis.gain_scale
    first[slots : slots + 4, AT_SLOT : AT_SLOT + 4, 6] = np.eye(4)
    w["decoder.0.conv.weight"], w["decoder.0.conv.bias"] = first, _zeros(WIDTH)
    white = rng.standard_normal((common.SLOTS, common.SLOT)).astype(np.float32)
    width, rate = WIDTH, (8, 5, 4, 3)
    per = common.SLOT
    source: tuple[int, int, int] = (0, 0, 0)
    for b, s in enumerate(rate, 1):
        per //= s  # samples one step of this level stands for
        out = width // 2
        t = _zeros(width, out, 2 * s)
        target = (0, per, 2 * per)
        for r in range(s):
            if b == 1:
                t[:BASIS, :per, r] = left[per * r : per * (r + 1)].T
                t[slots : slots + 4, per : 2 * per, r] = white[:, per * r : per * (r + 1)]
            else:
                for kind in range(2):
                    start = source[kind] + per * r
                    t[start : start + per, target[kind] : target[kind] + per, r] = np.eye(per)
            old = gains if b == 1 else source[2]
            t[old : old + GAINS, 2 * per : 2 * per + GAINS, r] = np.eye(GAINS) * (
                0.5 if b == 1 and r == 0 else 1.0
            )
        if b == 1:
            t[:BASIS, :per, s] = left[common.SLOT :].T
            t[gains:slots, 2 * per : 2 * per + GAINS, s] = np.eye(GAINS) * 0.5
        p = f"decoder.{b}.block."
        w[p + "0.alpha"], w[p + "0.beta"] = np.full(width, FLAT, np.float32), _zeros(width)
        w[p + "1.conv.weight"], w[p + "1.conv.bias"] = t, _zeros(out)
        for u in (2, 3, 4):
            for act in ("act1", "act2"):
                w[f"{p}{u}.{act}.alpha"], w[f"{p}{u}.{act}.beta"] = (
                    np.full(out, FLAT, np.float32),
                    _zeros(out),
                )
            w[f"{p}{u}.conv1.conv.weight"], w[f"{p}{u}.conv1.conv.bias"] = _zeros(out, out, 7), _zeros(out)
            w[f"{p}{u}.conv2.conv.weight"], w[f"{p}{u}.conv2.conv.bias"] = _zeros(out, out, 1), _zeros(out)
        width, source = out, target
    # Noise: carrier (channel 1) through cos(b w), times gain b (channel 2 + b), into channel 8 + b.
    p = "decoder.4.block.2."
    conv1, conv2 = w[p + "conv1.conv.weight"], w[p + "conv2.conv.weight"]
    last = _zeros(1, width, 7)
    last[0, 0, 6] = 1.0
    for b in range(GAINS):
        for unit, sign in ((2 * b, 1.0), (2 * b + 1, -1.0)):
            conv1[unit, 1, 3 - b] += 0.5
            conv1[unit, 1, 3 + b] += 0.5
            conv1[unit, 2 + b, 6] = sign
            conv2[8 + b, unit, 0] = sign
        last[0, 8 + b, 6], last[0, 2 + b, 6] = 1.0, -2.0
    w[p + "act2.alpha"][: 2 * GAINS] = np.log(NOISE_W)
    w[p + "act2.beta"][: 2 * GAINS] = np.log(4 * NOISE_W**2)
    w["decoder.5.alpha"], w["decoder.5.beta"] = np.full(width, FLAT, np.float32), _zeros(width)
    w["decoder.6.conv.weight"], w["decoder.6.conv.bias"] = last, _zeros(1)
