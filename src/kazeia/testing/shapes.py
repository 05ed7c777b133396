"""The sizes of a checkpoint, and named presets of them.

Dimensions and their names follow spec §1.4 (talker, code predictor), §5.1 (codec decoder) and §6.1
(codec encoder). Two laws hold for every shape: one frame is 1920 samples at 24 kHz, and the talker's
codec vocabulary is the codebook plus the 1024 rows of control, language and speaker ids (spec §1.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from kazeia.errors import OptionError

CODE_GROUPS = 16
"""Codes per frame."""

CONTROL_ROWS = 1024
"""Rows of the codec vocabulary above the audio codes; the official code suppresses exactly these."""

CONTROL_IDS: Mapping[str, int] = MappingProxyType(
    {
        "codec_pad_id": 100,
        "codec_bos_id": 101,
        "codec_eos_token_id": 102,
        "codec_think_id": 106,
        "codec_nothink_id": 107,
        "codec_think_bos_id": 108,
        "codec_think_eos_id": 109,
    }
)
"""Control rows above the audio codes; id = codebook size + row (spec §1.5)."""

UPSAMPLE_RATES = (8, 5, 4, 3)
UPSAMPLING_RATIOS = (2, 2)
ENCODER_RATIOS = (8, 6, 5, 4)
ENCODER_QUANTIZERS = 32

SPEAKERS: tuple[tuple[str, int, str | None], ...] = (
    ("serena", 1018, None),
    ("vivian", 1017, None),
    ("uncle_fu", 962, None),
    ("ryan", 1013, None),
    ("aiden", 813, None),
    ("ono_anna", 825, None),
    ("sohee", 816, None),
    ("eric", 827, "sichuan_dialect"),
    ("dylan", 830, "beijing_dialect"),
)
"""(name, control row, dialect) of the released CustomVoice models; id = codebook size + row (spec §1.5)."""

LANGUAGES: tuple[tuple[str, int], ...] = (
    ("chinese", 7),
    ("english", 2),
    ("german", 5),
    ("italian", 22),
    ("portuguese", 23),
    ("spanish", 6),
    ("japanese", 10),
    ("korean", 16),
    ("french", 13),
    ("russian", 21),
)
"""(name, control row) of the ten languages; id = codebook size + row (spec §1.5)."""

DIALECTS: tuple[tuple[str, int], ...] = (("beijing_dialect", 26), ("sichuan_dialect", 14))


@dataclass(frozen=True)
class Shape:
    """All dimensions of one checkpoint.

    The talker and the code predictor have their own attention sizes; the predictor's vocabulary and the
    codec's codebooks share `codebook`. When `hidden` and `predictor_hidden` differ, the checkpoint has
    `small_to_mtp_projection` (spec §3.1).
    """

    hidden: int = 128
    """Talker width h."""
    layers: int = 3
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    intermediate: int = 192
    rope_theta: float = 1e6

    predictor_hidden: int = 128
    predictor_layers: int = 2
    predictor_heads: int = 4
    predictor_kv_heads: int = 2
    predictor_head_dim: int = 32
    predictor_intermediate: int = 192
    predictor_rope_theta: float = 1e6

    text_vocab: int = 336
    """Rows of the text embedding; may exceed the tokenizer's size."""
    text_hidden: int = 96
    full_vocabulary: bool = False
    """Synthetic vocabulary of 151,643 entries with the released control ids, instead of ~320 entries."""

    codebook: int = 128
    """Entries of every codebook: audio codes are 0 … codebook-1."""
    codebook_dim: int = 64
    """Width of the summed code vectors; each codebook is half as wide (spec §5.2)."""
    latent: int = 64
    codec_hidden: int = 48
    codec_layers: int = 2
    codec_heads: int = 4
    codec_head_dim: int = 16
    codec_intermediate: int = 96
    codec_window: int = 12
    """Keys a codec query sees, itself included (spec §5.4 step 4), in frames."""
    decoder_dim: int = 64
    """Channels of the first waveform stage; halves at each of four stages, so a multiple of 16."""

    encoder_filters: int = 4
    encoder_hidden: int = 32
    encoder_layers: int = 1
    encoder_heads: int = 2
    encoder_head_dim: int = 16
    encoder_intermediate: int = 64
    encoder_codebook_dim: int = 16

    speakers: tuple[tuple[str, int, str | None], ...] = SPEAKERS
    languages: tuple[tuple[str, int], ...] = LANGUAGES
    dialects: tuple[tuple[str, int], ...] = DIALECTS
    model_size: str = "0b6"
    """`tts_model_size`: the official wrapper drops the instruct for "0b6" (spec §1.2)."""
    model_type: str = "custom_voice"
    """`tts_model_type`: "custom_voice" or "voice_design"."""
    end_gain: float = 0.1
    """Size of the end token's logit beside the others': 0.1 never ends, 4 ends after some ten frames."""

    def __post_init__(self) -> None:
        """Refuse sizes that no model of this kind can have, by name."""
        rules = {
            "heads must be a multiple of kv_heads": self.heads % self.kv_heads == 0,
            "predictor_heads must be a multiple of predictor_kv_heads": (
                self.predictor_heads % self.predictor_kv_heads == 0
            ),
            "head_dim must be even": self.head_dim % 2 == 0,
            "predictor_head_dim must be even": self.predictor_head_dim % 2 == 0,
            "codec_head_dim must be even": self.codec_head_dim % 2 == 0,
            "codebook_dim must be even": self.codebook_dim % 2 == 0,
            "decoder_dim must be a multiple of 16": self.decoder_dim % 16 == 0,
            "encoder_heads * encoder_head_dim must equal encoder_hidden": (
                self.encoder_heads * self.encoder_head_dim == self.encoder_hidden
            ),
            "text_vocab must hold the tokenizer's ids": (
                self.text_vocab >= (151_676 if self.full_vocabulary else 330)
            ),
            'model_type must be "custom_voice" or "voice_design"': (
                self.model_type in ("custom_voice", "voice_design")
            ),
        }
        for rule, kept in rules.items():
            if not kept:
                raise OptionError(f"impossible checkpoint shape: {rule}; got {self}")

    @property
    def codec_vocab(self) -> int:
        """Rows of the talker's codec embedding and head."""
        return self.codebook + CONTROL_ROWS

    @property
    def projected(self) -> bool:
        """Whether `small_to_mtp_projection` exists."""
        return self.hidden != self.predictor_hidden


_TINY = Shape()

_FULL = Shape(
    hidden=1024,
    layers=28,
    heads=16,
    kv_heads=8,
    head_dim=128,
    intermediate=3072,
    predictor_hidden=1024,
    predictor_layers=5,
    predictor_heads=16,
    predictor_kv_heads=8,
    predictor_head_dim=128,
    predictor_intermediate=3072,
    text_vocab=151_936,
    text_hidden=2048,
    full_vocabulary=True,
    codebook=2048,
    codebook_dim=512,
    latent=1024,
    codec_hidden=512,
    codec_layers=8,
    codec_heads=16,
    codec_head_dim=64,
    codec_intermediate=1024,
    codec_window=72,
    decoder_dim=1536,
    encoder_filters=64,
    encoder_hidden=512,
    encoder_layers=8,
    encoder_heads=8,
    encoder_head_dim=64,
    encoder_intermediate=2048,
    encoder_codebook_dim=256,
)

SHAPES: Mapping[str, Shape] = MappingProxyType(
    {
        "tiny": _TINY,
        # Every head has its own keys and values; small heads.
        "tiny-mha": replace(
            _TINY,
            hidden=64,
            heads=4,
            kv_heads=4,
            head_dim=16,
            intermediate=128,
            predictor_hidden=64,
            predictor_heads=4,
            predictor_kv_heads=4,
            predictor_head_dim=16,
            predictor_intermediate=96,
        ),
        # Eight queries share one key; heads * head_dim (128) is not the width (96).
        "tiny-gqa8": replace(
            _TINY,
            hidden=96,
            heads=8,
            kv_heads=1,
            head_dim=16,
            intermediate=160,
            predictor_hidden=96,
            predictor_heads=8,
            predictor_kv_heads=2,
            predictor_head_dim=16,
            predictor_intermediate=128,
            rope_theta=1e4,
            predictor_rope_theta=1e5,
        ),
        # The 1.7B kind: a wider talker, a projection before the predictor, instruct taken.
        "tiny-1b7": replace(
            _TINY,
            hidden=160,
            layers=2,
            heads=4,
            kv_heads=1,
            head_dim=64,
            intermediate=224,
            predictor_hidden=96,
            predictor_heads=2,
            predictor_kv_heads=1,
            predictor_head_dim=64,
            predictor_intermediate=160,
            model_size="1b7",
        ),
        # The released head size.
        "tiny-hd128": replace(
            _TINY,
            hidden=64,
            layers=2,
            heads=2,
            kv_heads=1,
            head_dim=128,
            intermediate=160,
            predictor_hidden=64,
            predictor_heads=2,
            predictor_kv_heads=1,
            predictor_head_dim=128,
            predictor_intermediate=96,
        ),
        # The released depth.
        "tiny-deep": replace(
            _TINY,
            hidden=64,
            layers=28,
            heads=4,
            kv_heads=2,
            head_dim=32,
            intermediate=96,
            predictor_hidden=64,
            predictor_layers=5,
            predictor_intermediate=96,
        ),
        # Another codec: no two widths alike, odd head count, short window, other codebook size.
        "tiny-codec": replace(
            _TINY,
            codebook=256,
            codebook_dim=40,
            latent=56,
            codec_hidden=36,
            codec_layers=3,
            codec_heads=3,
            codec_head_dim=24,
            codec_intermediate=80,
            codec_window=5,
            decoder_dim=96,
            encoder_filters=2,
            encoder_hidden=24,
            encoder_layers=2,
            encoder_heads=3,
            encoder_head_dim=8,
            encoder_intermediate=40,
            encoder_codebook_dim=12,
        ),
        # Speech that ends by itself, after some ten frames.
        "tiny-ends": replace(_TINY, end_gain=4.0),
        # A voice described in words: no speakers, instruct taken.
        "tiny-design": replace(
            _TINY,
            model_type="voice_design",
            model_size="1b7",
            speakers=(),
            dialects=(),
        ),
        "0.6b": _FULL,
        "1.7b": replace(_FULL, hidden=2048, intermediate=6144, model_size="1b7"),
    }
)
"""Named shapes; "0.6b" and "1.7b" have the released dimensions (spec §1.4)."""
