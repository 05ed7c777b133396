"""Step 7: the table. What the shipped voice says, heard by the judge, at its shipped sampling defaults.

    python evaluate.py DATASET WORK JUDGE CHECKPOINT [--count 50] [--quant f32] [--teacher]

Rows: the teacher's recordings, the codec alone (true codes through the decoder), and the voice end to end through the
Kazeia engine, on the held-out sentences and on those of new_sentences.json. Word error rate per language, natural ends,
duration ratio to the teacher, silence share (20 ms frames 40 dB below the loudest).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import codec
import common
import data
import numpy as np
import soundfile
from judge import Judge

GREETING, SEEDS = "Bonjour, je m'appelle Kazeia.", (1, 42, 100, 777, 12345)


def silence_share(audio: np.ndarray) -> float:
    """Share of 20 ms frames more than 40 dB below the loudest."""
    frames = audio[: len(audio) // common.SLOT * common.SLOT].reshape(-1, common.SLOT)
    level = np.sqrt((frames.astype(np.float64) ** 2).mean(1))
    return float((level < level.max() * 0.01).mean())


def line(name: str, rates: dict[str, float], more: str = "") -> None:
    print(
        f"| {name} | {rates.get('french', float('nan')):.1%} | {rates.get('english', float('nan')):.1%} | {more} |",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("work")
    parser.add_argument("judge")
    parser.add_argument("checkpoint")
    parser.add_argument("--count", type=int, default=50, help="held-out sentences per language")
    parser.add_argument("--new", type=int, default=30, help="new sentences per language")
    parser.add_argument("--quant", default="f32")
    parser.add_argument("--teacher", action="store_true")
    parser.add_argument("--no-codec", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--save", help="folder for the spoken WAV files")
    args = parser.parse_args()
    import kazeia

    ears = Judge(args.judge)
    held = data.sample_held(data.load(args.dataset, args.work, "held"), args.count)
    rows = {common.row_name(r): r for r in common.read_manifest(args.dataset, "held")}
    print("| what | fr | en | |\n|---|---|---|---|")
    if args.teacher:
        spoken = [
            (u.text, u.language, soundfile.read(Path(args.dataset) / rows[u.name]["file"])[0]) for u in held
        ]
        line("teacher", ears.rate(spoken))
    if not args.no_codec:
        rng = common.seed_all()
        decoder = codec.whole_decoder(args.work)
        line(
            "codec, true codes",
            ears.rate([(u.text, u.language, codec.decode(decoder, u.encode(rng))) for u in held]),
        )
    with kazeia.load(args.checkpoint, quant=args.quant, threads=1) as engine:

        def say(text: str, language: str, seed: int) -> tuple[np.ndarray, bool]:
            speech = engine.synthesize(text, language=language, seed=seed)
            return speech.pcm, speech.finish_reason == "stop"

        ends, ratio, share, items = [], [], [], []
        for i, u in enumerate(held):
            audio, ended = say(u.text, u.language, i)
            ends.append(ended)
            ratio.append(len(audio) / u.alignment.length)
            share.append(silence_share(audio))
            items.append((u.text, u.language, audio))
            if args.save:
                soundfile.write(common.work_dir(args.save) / f"{u.name}.wav", audio, common.RATE)
        line(
            f"voice, {args.quant}, held-out ({len(held)})", ears.rate(items, args.show),
            f"ends {np.mean(ends):.0%}, duration {np.mean(ratio):.2f} ± {np.std(ratio):.2f}, silence {np.mean(share):.0%}",
        )  # fmt: skip
        new = json.loads((Path(__file__).parent / "new_sentences.json").read_text("utf-8"))
        texts = [(t, lang) for lang in common.LANGUAGES for t in new[lang][: args.new]]
        if texts:
            made = [(t, lang, *say(t, lang, i)) for i, (t, lang) in enumerate(texts)]
            line(f"voice, {args.quant}, new ({len(texts)})", ears.rate([m[:3] for m in made], args.show),
                 f"ends {np.mean([m[3] for m in made]):.0%}")  # fmt: skip
        for seed in SEEDS:
            audio, ended = say(GREETING, "french", seed)
            heard = ears.hear(audio, "french")
            print(f"seed {seed}: {len(audio) / common.RATE:.2f} s, {'end' if ended else 'no end'}, "
                  f"silence {silence_share(audio):.0%}, heard: {heard}")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
