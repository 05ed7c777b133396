"""What a comparison of formats found: as data, and as tables in Markdown."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from kazeia.bench.report import NONE, table


@dataclass(frozen=True)
class Rollouts:
    """What a format says by itself, from the text and the seed alone."""

    lengths: tuple[int, ...]
    """Frames of each rollout."""
    ended: tuple[bool, ...]
    """Whether each ended by itself, and not at the limit."""
    word_error_rate: float | None
    """Errors per word by the judge; None without one."""

    def to_dict(self) -> dict[str, Any]:
        """The fields."""
        return {
            "lengths": list(self.lengths),
            "ended": list(self.ended),
            "word_error_rate": self.word_error_rate,
        }


@dataclass(frozen=True)
class FormatQuality:
    """One format against f32."""

    quant: str
    frames: int
    """Frames that the teacher-forced figures are means of."""
    agreement: tuple[float, ...]
    """Share of frames in which both find the same code most likely, given f32's codes before it; one per
    codebook, 0 to 15."""
    kl: tuple[float, ...]
    """Kullback-Leibler divergence of this format's chances from f32's, in nats; one per codebook."""
    free: Rollouts
    same_frames: tuple[int, ...]
    """Frames at the beginning of each rollout whose codes are f32's."""
    length_ratios: tuple[float, ...]
    """Length over f32's, of the rollouts that ended by themselves in both."""
    decoder_snr_db: float | None
    """Signal-to-noise ratio of the codec decoder against f32's on the same codes; None when equal."""

    @property
    def length_ratio(self) -> float | None:
        """The median of `length_ratios`; None when there is none."""
        return statistics.median(self.length_ratios) if self.length_ratios else None

    @property
    def predictor_agreement(self) -> float:
        """Mean over codebooks 1–15."""
        return statistics.fmean(self.agreement[1:])

    @property
    def predictor_kl(self) -> float:
        """Mean over codebooks 1–15."""
        return statistics.fmean(self.kl[1:])

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "quant": self.quant,
            "frames": self.frames,
            "agreement": list(self.agreement),
            "kl_nats": list(self.kl),
            "predictor_agreement": self.predictor_agreement,
            "predictor_kl_nats": self.predictor_kl,
            "free": self.free.to_dict(),
            "same_frames": list(self.same_frames),
            "length_ratios": list(self.length_ratios),
            "length_ratio": self.length_ratio,
            "decoder_snr_db": self.decoder_snr_db,
            "decoder_equal": self.decoder_snr_db is None,
        }


@dataclass(frozen=True)
class QualityReport:
    """All formats of one model against f32."""

    model: str
    is_random: bool
    voice: str
    texts: tuple[tuple[str, str], ...]
    """(text, language) of each rollout; its seed is its place."""
    limit: int
    """Frames that a rollout was stopped after."""
    reference: Rollouts
    """What f32 says."""
    formats: tuple[FormatQuality, ...]

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "model": self.model,
            "random": self.is_random,
            "voice": self.voice,
            "texts": [{"text": text, "language": language} for text, language in self.texts],
            "limit": self.limit,
            "reference": self.reference.to_dict(),
            "formats": [found.to_dict() for found in self.formats],
        }

    def markdown(self) -> str:
        """Two tables: by format, and by codebook."""
        noise = " (random weights: noise)" if self.is_random else ""
        heading = (
            f"{self.model}{noise}, voice {self.voice}: {len(self.texts)} rollouts of at most {self.limit} "
            "frames, against f32"
        )
        columns = [
            "format",
            "agreement 0",
            "agreement 1–15",
            "KL 0",
            "KL 1–15",
            "same codes for",
            "length",
            "ended",
            "decoder SNR",
            "word errors",
        ]
        rows = [["f32", *[NONE] * 6, _ended(self.reference), NONE, _wer(self.reference)]]
        books = len(self.formats[0].agreement)
        by_book = [
            [str(k), *(cell for f in self.formats for cell in (f"{f.agreement[k]:.1%}", f"{f.kl[k]:.4f}"))]
            for k in range(books)
        ]
        return "\n\n".join(
            [
                heading,
                table(columns, rows + [_row(found) for found in self.formats]),
                table(
                    [
                        "codebook",
                        *(f"{f.quant} {what}" for f in self.formats for what in ("agreement", "KL")),
                    ],
                    by_book,
                ),
            ]
        )


def _row(found: FormatQuality) -> list[str]:
    ratio = found.length_ratio
    length = NONE
    if ratio is not None:
        length = f"{ratio:.2f} ({min(found.length_ratios):.2f}–{max(found.length_ratios):.2f})"
    snr = found.decoder_snr_db
    return [
        found.quant,
        f"{found.agreement[0]:.1%}",
        f"{found.predictor_agreement:.1%}",
        f"{found.kl[0]:.4f}",
        f"{found.predictor_kl:.4f}",
        f"{statistics.median(found.same_frames):g} frames",
        length,
        _ended(found.free),
        "equal" if snr is None else f"{snr:.1f} dB",
        _wer(found.free),
    ]


def _ended(free: Rollouts) -> str:
    return f"{sum(free.ended)}/{len(free.ended)}"


def _wer(free: Rollouts) -> str:
    return NONE if free.word_error_rate is None else f"{free.word_error_rate:.1%}"
