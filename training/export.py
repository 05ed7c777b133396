"""Step 6: the checkpoint in the official layout.

    python export.py WORK OUT [--temperature 0.3 --subtalker-temperature 0.2]

Writes config.json, generation_config.json, model.safetensors (bf16), the tokenizer's files and speech_tokenizer/ (f32).
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

import codec
import codec_config
import common
import talker
import torch
from safetensors.torch import save_file
from talker_model import PREDICTOR, TALKER, TEXT_VOCAB, TEXT_WIDTH, VOCAB, Shape

LAYOUT = Path(__file__).parent / "layout"


def _shape(s: Shape) -> dict[str, object]:
    return {
        "hidden_size": s.hidden, "num_hidden_layers": s.layers, "num_attention_heads": s.heads,
        "num_key_value_heads": s.kv_heads, "head_dim": s.head_dim, "intermediate_size": s.inner,
        "rope_theta": s.theta, "rms_norm_eps": s.eps,
    }  # fmt: skip


def config() -> dict[str, object]:
    made = json.loads((LAYOUT / "config.json").read_text("utf-8"))
    spoken = made["talker_config"]
    spoken.update(_shape(TALKER), vocab_size=VOCAB, text_hidden_size=TEXT_WIDTH, text_vocab_size=TEXT_VOCAB)
    inner = spoken["code_predictor_config"]
    inner.update(_shape(PREDICTOR), vocab_size=common.CODES, num_code_groups=common.STREAMS)
    inner["layer_types"] = ["full_attention"] * PREDICTOR.layers
    return dict(made)


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", "utf-8")


def short(value: torch.Tensor) -> torch.Tensor:
    """float32 with 10 bits of mantissa: far more than a trained weight needs, and half of it packs to nothing."""
    bits = value.float().contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


TRAINED = ("quantizer.", "pre_conv.", "pre_transformer.", "upsample.0.", "upsample.1.", "upsample.2.1.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work")
    parser.add_argument("out")
    parser.add_argument("--temperature", type=float, default=0.3)
    parser.add_argument("--subtalker-temperature", type=float, default=0.2)
    args = parser.parse_args()
    out = Path(args.out)
    speech = out / "speech_tokenizer"
    speech.mkdir(parents=True, exist_ok=True)
    for name in (
        "vocab.json",
        "merges.txt",
        "tokenizer_config.json",
        "preprocessor_config.json",
        "README.md",
    ):
        shutil.copyfile(LAYOUT / name, out / name)
    shutil.copyfile(LAYOUT / "speech_preprocessor_config.json", speech / "preprocessor_config.json")
    write_json(out / "config.json", config())
    write_json(out / "generation_config.json", {
        "do_sample": True, "repetition_penalty": 1.0, "temperature": args.temperature, "top_p": 1.0, "top_k": 50,
        "subtalker_dosample": True, "subtalker_temperature": args.subtalker_temperature, "subtalker_top_p": 1.0,
        "subtalker_top_k": 50, "max_new_tokens": 1024,
    })  # fmt: skip
    tensors = talker.load_model(args.work).state_dict()
    named = {"talker." + name: value.to(torch.bfloat16).contiguous() for name, value in tensors.items()}
    save_file(named, out / "model.safetensors", metadata={"format": "pt"})
    layout = json.loads((LAYOUT / "speech_config.json").read_text("utf-8"))
    layout["decoder_config"] = codec_config.DECODER
    write_json(speech / "config.json", layout)
    decoder = codec.whole_decoder(args.work).state_dict()
    parts = {
        "decoder." + k: (short(v) if k.startswith(TRAINED) else v.float()).contiguous()
        for k, v in decoder.items()
    }
    save_file(parts, speech / "model.safetensors", metadata={"format": "pt"})
    size = sum(p.stat().st_size for p in out.rglob("*") if p.is_file())
    with tempfile.TemporaryDirectory() as folder:
        packed = shutil.make_archive(str(Path(folder) / "voice"), "zip", out)
        print(f"{out}: {size / 1e6:.1f} MB, packed {Path(packed).stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
