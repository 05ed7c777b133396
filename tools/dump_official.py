#!/usr/bin/env python3
"""Write what the official package computes for one text, stage by stage, as a dump to compare with.

    python tools/dump_official.py --model Qwen3-TTS-12Hz-0.6B-CustomVoice --out dump \\
        --text "Good morning." --voice vivian --language english --frames 25

Needs torch, transformers 4.57.3, qwen-tts 0.1.1 and safetensors; runs any checkpoint in the official layout
on the CPU in float32. A 0.6B model takes about 6 GB of memory and a second or two per frame.

A dump is a folder with two files.

`dump.json`
    format        "kazeia-dump"
    version       1
    packages      versions of torch, transformers, qwen-tts and numpy
    model         type, size, hidden, layers, vocab and codebook of the checkpoint; no path, no hash
    text, voice, language, instruct
                  what was asked; voice, language and instruct may be null. `instruct` is what the model
                  took: the package drops it for "0b6" models.
    layout        "whole": all text in the prompt (`non_streaming_mode=True`); "streamed": one text row a
                  frame (spec §2.4, tails A and B)
    frames        F, the number of frames; fewer than asked when the end token came
    ended         whether the end token came
    seed          null: every code is the greedy choice, after the repetition penalty, minimum-length and
                  suppression processors of the package. A number: codes were sampled with that torch seed
                  and the checkpoint's own sampling settings.
    repetition_penalty
                  the penalty in force

`dump.safetensors`, with T0 prompt rows, Z trailing rows, talker width h, codec vocabulary V, codebook Vp:
    text_ids          (N,)        int64  the text's ids X, without the template's (spec §2.4)
    prompt_rows       (T0, h)     f32    talker input, prompt
    trailing_rows     (Z, h)      f32    text rows added frame by frame; after the last, the pad row is added
    talker_hidden     (T0+F-1, h) f32    after the final norm: the prompt's positions, then the steps of
                                         frames 0 … F-2. Row T0-1+f gives frame f.
    talker_logits     (F, V)      f32    the head's raw output for frame f, before any processor
    codes             (F, 16)     int64  free running
    predictor_logits  (F, 15, Vp) f32    the code predictor's output, fed `codes`
    waveform          (F*1920,)   f32    the codec decoder's output for `codes`, decoded in one piece

Ids are those of a model loaded from the hub. (From a local folder transformers 4.57.3 swaps the
pre-tokeniser, spec §8.2; the dump undoes that.)
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from official import Official, Trace, versions

FORMAT = "kazeia-dump"
VERSION = 1
LAYOUTS = ("whole", "streamed")


def make_dump(
    official: Official,
    text: str,
    *,
    voice: str | None,
    language: str | None = None,
    instruct: str | None = None,
    layout: str = "whole",
    frames: int = 25,
    seed: int | None = None,
    extra: dict[str, Any] | None = None,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Run the official package and return the contents of dump.json and dump.safetensors.

    `extra` is added to dump.json.
    """
    config = official.config
    if config.tts_model_size == "0b6":
        instruct = None
    options: dict[str, Any] = {}
    if seed is not None:
        official.torch.manual_seed(seed)
        options = {"do_sample": True, "subtalker_dosample": True}
    trace = official.trace(
        text,
        voice,
        language or "Auto",
        instruct,
        non_streaming_mode=layout == "whole",
        frames=frames,
        **options,
    )
    talker = config.talker_config
    info = {
        "format": FORMAT,
        "version": VERSION,
        "packages": versions(),
        "model": {
            "type": config.tts_model_type,
            "size": config.tts_model_size,
            "hidden": talker.hidden_size,
            "layers": talker.num_hidden_layers,
            "vocab": talker.vocab_size,
            "codebook": talker.code_predictor_config.vocab_size,
        },
        "text": text,
        "voice": voice,
        "language": language,
        "instruct": instruct or None,
        "layout": layout,
        "frames": len(trace.codes),
        "ended": trace.ended,
        "seed": seed,
        "repetition_penalty": official.wrapper._merge_generate_kwargs()["repetition_penalty"],
        **(extra or {}),
    }
    return info, _tensors(official, trace)


def _tensors(official: Official, trace: Trace) -> dict[str, np.ndarray]:
    last = len(trace.prompt_rows) + len(trace.codes) - 1
    return {
        "text_ids": trace.text_ids,
        "prompt_rows": trace.prompt_rows,
        "trailing_rows": trace.trailing_rows,
        "talker_hidden": trace.talker_hidden[:last],
        "talker_logits": trace.talker_logits,
        "codes": trace.codes,
        "predictor_logits": official.predictor_logits(trace.frame_hidden, trace.codes),
        "waveform": official.waveform(trace.codes),
    }


def write_dump(folder: Path, info: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """Write both files; dump.json last, so that a dump with it is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dump.json").unlink(missing_ok=True)
    save_file(
        {name: np.ascontiguousarray(values) for name, values in tensors.items()},
        str(folder / "dump.safetensors"),
    )
    text = json.dumps(info, ensure_ascii=False, indent=2) + "\n"
    (folder / "dump.json").write_text(text, encoding="utf-8", newline="\n")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        description="Write what the official package computes for one text, as a dump to compare with."
    )
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help="folder of the checkpoint")
    parser.add_argument("--out", type=Path, required=True, metavar="DUMP", help="folder for the dump")
    parser.add_argument("--text", required=True)
    parser.add_argument("--voice", help="a speaker of the model; leave out for a voice_design model")
    parser.add_argument("--language", help="a language of the model; the default lets the model choose")
    parser.add_argument("--instruct", help="how to speak; a 0.6B model drops it")
    parser.add_argument(
        "--layout", choices=LAYOUTS, default="whole", help="where the text goes (default: whole)"
    )
    parser.add_argument("--frames", type=int, default=25, metavar="N", help="limit, 80 ms each (default: 25)")
    parser.add_argument("--seed", type=int, help="sample with this seed instead of taking the greedy choice")
    given = parser.parse_args(arguments)
    if given.frames < 2:
        parser.error(f"--frames must be at least 2 (the package never ends sooner); got {given.frames}")
    if given.seed is not None and not 0 <= given.seed < 2**63:
        parser.error(f"--seed must be from 0 to 2^63 - 1; got {given.seed}")
    if not (given.model / "config.json").is_file():
        parser.error(f"--model {given.model} has no config.json; expected the folder of a checkpoint")
    official = Official(given.model)
    if official.config.tts_model_type == "custom_voice" and given.voice is None:
        parser.error(f"--voice is needed; this model has {', '.join(official.config.talker_config.spk_id)}")
    info, tensors = make_dump(
        official,
        given.text,
        voice=given.voice,
        language=given.language,
        instruct=given.instruct,
        layout=given.layout,
        frames=given.frames,
        seed=given.seed,
    )
    write_dump(given.out, info, tensors)
    end = "the end token came" if info["ended"] else "the limit"
    print(f"{given.out}: {info['frames']} frames ({end}), prompt of {len(tensors['prompt_rows'])} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
