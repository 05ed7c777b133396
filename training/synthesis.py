"""The codec decoder's computed part: slot parameters in, waveform out.

From `upsample.2` on, the official decoder (spec §5.2) holds weights that make it a harmonic synthesiser with a noise
path. Its upsampling ratios are (4, 1, 1, 1, 1): one step a slot, five ConvNeXt blocks. The first two are trained
(codec.py) and deliver, per slot, the mel cepstrum and the voicing (SHAPE numbers), 4 numbers g (the noise's amplitude
response is sum_b g_b cos(b w)), one of the pitch numbers K as a one-hot, and the slot's number as another. Then:

* the third makes of the shape R complex numbers e (a small network, trained alone: `codec.py net`): the voiced spectrum
  at the multiples n of 12.5 Hz is X = E e;
* the fourth turns e by i^(n j), the phase that harmonic n has at slot j (four copies, n mod 4);
* the fifth forms A + iB = X for every n, and shuts those n that k does not divide. Its output is u, the waveform of a
  slot in a 216-dimensional basis.

A value a passes a ConvNeXt block, or is shut out of it, as GELU(a + o) - GELU(o - a), which is 2 a for a large offset o and
0 for a very negative one. The transposed convolutions unfold u into samples (polyphase). Noise: a fixed white pattern per
slot, times the gains by sin a · sin b = sin²((a+b)/2) - sin²((a-b)/2) in two snakes. All other snakes are so flat that
they are the identity.
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
LATENT = 288
UNITS = 4 * LATENT  # hidden units of a ConvNeXt block
RATIOS = (4, 1, 1, 1, 1)
WIDTH = 256  # decoder_dim
BASIS = 216
FADE = 60
SPAN = common.SLOT + FADE
COPIES = 8 * RANK
AT_PITCH = COPIES
# What must outlive the harmonics' block stands behind the channels that u is written over.
AT_GAIN, AT_SLOT, AT_LEVEL = LATENT - 11, LATENT - 7, LATENT - 3  # level: +C, -C, balance
AT_SHAPE = 2 * RANK
# The trained blocks: channels of their own, then the pitch; the slot stands where it stays.
OWN = AT_GAIN - len(PITCHES)
SLOT_WIDTH = 64  # channels a slot has of the frame's latents; behind all four the pitch, then a constant 1
FRAME_PITCH = common.SLOTS * SLOT_WIDTH
FRAME_ONE = FRAME_PITCH + len(PITCHES)
if AT_PITCH + len(PITCHES) > AT_GAIN or BASIS > AT_GAIN:
    raise ValueError("the channels do not suffice: raise RANK or lower BASIS")
LEVEL, LOUD = 300.0, 1e4
OPEN, SHUT = (
    6.0,
    -8.0,
)  # offsets of a hidden pair where a is small: 2 a for o > 3 + |a| and 0 for o < -5 - |a|
WIDE = 24.0  # the same where it is not
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

    def slots(self, mc: np.ndarray, ap: np.ndarray, voiced: np.ndarray) -> np.ndarray:
        """-> (n, BLOCK): shape and noise gains, what the trained blocks must deliver."""
        g = noise_gains(mc, ap, voiced) / self.gain_scale
        return np.concatenate([self.shape(mc, voiced), g], 1)


def _zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def _complex_block(real: np.ndarray, imag: np.ndarray) -> np.ndarray:
    """Multiplication by the scalar real + i·imag on (Re, Im) stacked vectors: (2R, 2R), row = input."""
    eye = np.eye(RANK)
    return np.block([[real * eye, imag * eye], [-imag * eye, real * eye]])


def _balance(up: np.ndarray) -> None:
    """Levels pass, and the balance keeps the mean of the channels at zero: large opposite constants make the LayerNorm
    a fixed scale."""
    up[:, AT_LEVEL + 2, :] = 0.0
    up[:, AT_LEVEL + 2, :] = -up.sum(1)


def _block(w: dict[str, np.ndarray], p: str) -> None:
    """A ConvNeXt block that passes everything on: nothing added, LayerNorm scaled back by the levels."""
    taps = _zeros(LATENT, 1, 7)
    taps[:, 0, 6] = 1.0
    w[p + "dwconv.conv.weight"], w[p + "dwconv.conv.bias"] = taps, _zeros(LATENT)
    w[p + "norm.weight"] = np.full(LATENT, LEVEL * np.sqrt(2.0 / LATENT), np.float32)
    w[p + "norm.bias"] = _zeros(LATENT)
    w[p + "pwconv1.weight"], w[p + "pwconv1.bias"] = _zeros(UNITS, LATENT), _zeros(UNITS)
    w[p + "pwconv2.weight"], w[p + "pwconv2.bias"] = _zeros(LATENT, UNITS), _zeros(LATENT)
    w[p + "gamma"] = np.ones(LATENT, np.float32)


def _keep(up: np.ndarray, first: int, count: int, to: int | None = None) -> None:
    """Channels first … first + count go through a convolution of one tap, to `to`."""
    for i in range(count):
        up[first + i, (first if to is None else to) + i, :] = 1.0


def weights(
    basis: Basis,
    net: dict[str, np.ndarray],
    enter: tuple[np.ndarray, np.ndarray],
    leave: tuple[np.ndarray, np.ndarray],
) -> dict[str, np.ndarray]:
    """All tensors from `upsample.0` on but the first two ConvNeXt blocks, names without the leading "decoder.".

    net: the shape-to-spectrum network, w1 (UNITS, SHAPE), b1, w2 (2 RANK, UNITS), b2; GELU between.
    enter: weight (OWN, SLOT_WIDTH) and bias from a slot's latents to the trained blocks; leave: (BLOCK, OWN), bias.
    """
    w: dict[str, np.ndarray] = {}
    up, bias = _zeros(LATENT, LATENT, RATIOS[0]), _zeros(LATENT)
    for j in range(common.SLOTS):
        up[j * SLOT_WIDTH : (j + 1) * SLOT_WIDTH, :OWN, j] = enter[0].T
        up[FRAME_ONE, AT_SLOT + j, j] = 1.0
    _keep(up, FRAME_PITCH, len(PITCHES), OWN)
    bias[:OWN] = enter[1]
    w["upsample.0.0.conv.weight"], w["upsample.0.0.conv.bias"] = up, bias
    w["upsample.1.0.conv.weight"], w["upsample.1.0.conv.bias"] = (
        np.eye(LATENT, dtype=np.float32)[..., None],
        _zeros(LATENT),
    )
    up, bias = _zeros(LATENT, LATENT, 1), _zeros(LATENT)
    up[:OWN, AT_SHAPE : AT_SHAPE + SHAPE, 0] = leave[0][:SHAPE].T
    up[:OWN, AT_GAIN : AT_GAIN + GAINS, 0] = leave[0][SHAPE:].T
    bias[AT_SHAPE : AT_SHAPE + SHAPE], bias[AT_GAIN : AT_GAIN + GAINS] = leave[1][:SHAPE], leave[1][SHAPE:]
    _keep(up, OWN, len(PITCHES), AT_PITCH)
    _keep(up, AT_SLOT, common.SLOTS)
    _balance(up)
    bias[AT_LEVEL + 2] = -bias.sum()
    bias[AT_LEVEL], bias[AT_LEVEL + 1] = LEVEL, -LEVEL
    w["upsample.2.0.conv.weight"], w["upsample.2.0.conv.bias"] = up, bias
    for i in (3, 4):
        up = _zeros(LATENT, LATENT, 1)
        _keep(up, 0, 2 * RANK if i == 3 else COPIES)
        _keep(up, AT_PITCH, len(PITCHES))
        _keep(up, AT_GAIN, GAINS + common.SLOTS + 2)
        _balance(up)
        w[f"upsample.{i}.0.conv.weight"], w[f"upsample.{i}.0.conv.bias"] = up, _zeros(LATENT)
    for i in (2, 3, 4):
        _block(w, f"upsample.{i}.1.")
    p = "upsample.2.1."
    w[p + "pwconv1.weight"][:, AT_SHAPE : AT_SHAPE + SHAPE], w[p + "pwconv1.bias"][:] = net["w1"], net["b1"]
    w[p + "pwconv2.weight"][: 2 * RANK], w[p + "pwconv2.bias"][: 2 * RANK] = net["w2"], net["b2"]
    _turn(w)
    _harmonics(w, basis)
    _unfold(w, basis)
    return w


def _turn(w: dict[str, np.ndarray]) -> None:
    """Copies 1 … 3 of e, turned by i^(copy · slot); copy 0 is e itself."""
    p = "upsample.3.1."
    one, bias, two = w[p + "pwconv1.weight"], w[p + "pwconv1.bias"], w[p + "pwconv2.weight"]
    h = 0
    for j in range(common.SLOTS):
        turns = [1j ** (copy * j) for copy in range(1, 4)]
        spread = np.concatenate([_complex_block(t.real, t.imag) for t in turns], 1)
        for d in range(2 * RANK):
            for sign in (1.0, -1.0):
                one[h, d], one[h, AT_SLOT + j], bias[h] = sign, 2 * WIDE, -WIDE
                two[2 * RANK : COPIES, h] = 0.5 * sign * spread[d]
                h += 1


def _harmonics(w: dict[str, np.ndarray], basis: Basis) -> None:
    p = "upsample.4.1."
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
        for column, row in (
            (project[:, i], np.concatenate([e.real, -e.imag])),
            (project[:, len(HARMONICS) + i], np.concatenate([e.imag, e.real])),
        ):
            for sign in (1.0, -1.0):
                one[h, copy : copy + 2 * RANK] = sign * row * 10.0
                one[h, AT_PITCH : AT_PITCH + len(PITCHES)] = [(OPEN - SHUT) * (n % k == 0) for k in PITCHES]
                bias[h] = SHUT
                two[:BASIS, h] = sign * column * LOUD / 20.0
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
