"""Step 2: the acoustic model, phone context of a slot -> envelope, aperiodicity and voicing (two 10 ms halves).

    python acoustic.py train DATASET WORK [--minutes 5]
    python acoustic.py measure DATASET WORK JUDGE [--count 8] [--sharpen 1.15]

It sees only what the codes say (codes.slot_context), so that its speech is a function of the codes: the codec decoder is
trained to imitate it. WORK/acoustic.pt holds weights, optimiser and step; `train` continues from there.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import codes
import common
import data
import numpy as np
import torch
import vocoder
from torch import nn

torch.set_num_threads(1)
HALVES = 2
WIDTH = vocoder.ORDER + vocoder.BANDS + 1


class Acoustic(nn.Module):
    """(slots, CONTEXT) int64 -> (slots, HALVES, WIDTH): normalised mc, ap and the voicing logit."""

    def __init__(self, hidden: int = 512) -> None:
        super().__init__()
        self.phone = nn.ModuleList([nn.Embedding(common.CODES, 48) for _ in range(5)])
        self.count = nn.ModuleList([nn.Embedding(codes.LONGEST + 1, 16) for _ in range(3)])
        self.body = nn.Sequential(
            nn.Linear(5 * 48 + 3 * 16 + 2, hidden), nn.SiLU(), nn.Dropout(0.1),
            nn.Linear(hidden, hidden), nn.SiLU(), nn.Dropout(0.1),
            nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, HALVES * WIDTH),
        )  # fmt: skip
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.register_buffer("scale", torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [table(x[:, i]) for i, table in enumerate(self.phone)]
        parts += [table(x[:, 5 + i]) for i, table in enumerate(self.count)]
        k = (x[:, 8:9].float() - 18.0) / 4.0
        parts += [k, k * k - 1.0]
        return self.body(torch.cat(parts, 1)).view(-1, HALVES, WIDTH)

    @torch.no_grad()
    def features(
        self, context: np.ndarray, sharpen: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Context (slots, CONTEXT) -> per-tick mc, ap, voicing 0…1; halves joined by linear interpolation."""
        out = self.eval()(torch.as_tensor(context))
        values = (out * self.scale + self.mean).reshape(-1, WIDTH).numpy()
        voicing = torch.sigmoid(out[..., -1]).reshape(-1).numpy()
        # Half h covers ticks 2h and 2h+1, its centre is between them.
        at = np.arange(2 * len(values))
        low = np.clip((at - 1) // 2, 0, len(values) - 1)
        high = np.clip(low + 1, 0, len(values) - 1)
        w = np.where(at % 2 == 1, 0.25, 0.75)[:, None].astype(np.float32)
        w[0] = 1.0
        ticks = values[low] * (1 - w) + values[high] * w
        mc = ticks[:, : vocoder.ORDER].copy()
        mc[:, 1:] *= sharpen
        return mc, ticks[:, vocoder.ORDER : -1], np.repeat(voicing, 2)


def dataset_of(
    utterances: list[data.Utterance], rng: np.random.Generator, offsets: int
) -> tuple[np.ndarray, np.ndarray]:
    """-> contexts (slots, CONTEXT) int16, targets (slots, HALVES, WIDTH) float32, for `offsets` shifts a clip."""
    xs, ys = [], []
    ticks = common.FRAME // common.TICK
    for u in utterances:
        for shift in rng.permutation(ticks)[:offsets]:
            encoded = u.encode(rng, int(shift) * common.TICK)
            context = codes.slot_context(encoded)
            n = len(encoded) * ticks
            pad = ((shift, max(0, n - shift - len(u.mc))), (0, 0))
            mc = np.pad(u.mc, pad, mode="edge")[:n]
            ap = np.pad(u.ap, pad, mode="edge")[:n]
            voiced = np.pad(u.f0 > 0, pad[0])[:n, None]
            rows = np.concatenate([mc, ap, voiced], 1).reshape(-1, HALVES, 2, WIDTH).mean(2)
            inside = slice(int(shift) // 4 + 1, (shift + len(u.mc)) // 4)
            xs.append(context[inside].astype(np.int16))
            ys.append(rows[inside].astype(np.float32))
    return np.concatenate(xs), np.concatenate(ys)


def load_model(work: str) -> Acoustic:
    model = Acoustic()
    model.load_state_dict(torch.load(Path(work) / "acoustic.pt", weights_only=False)["model"])
    return model.eval()


def train(dataset: str, work: str, minutes: float) -> None:
    rng = common.seed_all()
    torch.manual_seed(common.SEED)
    x, y = dataset_of(data.load(dataset, work, "train"), rng, 3)
    hx, hy = dataset_of(data.load(dataset, work, "held"), rng, 1)
    print("slots", x.shape, hx.shape, flush=True)
    model = Acoustic()
    model.mean.copy_(torch.as_tensor(y.reshape(-1, WIDTH).mean(0)))
    model.scale.copy_(torch.as_tensor(y.reshape(-1, WIDTH).std(0) + 1e-3))
    model.mean[-1], model.scale[-1] = 0.0, 1.0
    optimiser = torch.optim.AdamW(model.parameters(), 2e-3, weight_decay=0.01)
    path, step = Path(work) / "acoustic.pt", 0
    if path.exists():
        state = torch.load(path, weights_only=False)
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        step = state["step"]
    x, y, hx, hy = (torch.as_tensor(a) for a in (x.astype(np.int64), y, hx.astype(np.int64), hy))
    # Errors in nepers on the mel axis: the same weight for every coefficient.
    weight = model.scale[: vocoder.ORDER]

    def loss_of(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        out = model(a)
        target = (b - model.mean) / model.scale
        d = (out - target)[..., : vocoder.ORDER] * weight
        envelope = d.square().sum(-1).add(1e-4).sqrt().mean()
        aperiodic = (out - target)[..., vocoder.ORDER : -1].abs().mean()
        voicing = nn.functional.binary_cross_entropy_with_logits(out[..., -1], b[..., -1])
        return envelope + 0.3 * aperiodic + 0.5 * voicing

    begun, rate_steps = time.time(), 0
    total = minutes * 60
    while (spent := time.time() - begun) < total:
        for group in optimiser.param_groups:
            group["lr"] = 2e-3 * max(0.02, 1.0 - spent / total)
        model.train()
        pick = torch.randint(len(x), (512,))
        loss = loss_of(x[pick], y[pick])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        step += 1
        rate_steps += 1
        if step % 500 == 0:
            model.eval()
            with torch.no_grad():
                held = loss_of(hx, hy)
            print(f"step {step} train {loss:.3f} held {held:.3f} {spent:.0f} s", flush=True)
            torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": step}, path)
    torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": step}, path)


def speak(model: Acoustic, encoded: np.ndarray, rng: np.random.Generator, sharpen: float) -> np.ndarray:
    """Codes (frames, 16) -> audio through the classical vocoder."""
    mc, ap, voiced = model.features(codes.slot_context(encoded), sharpen)
    return sum(vocoder.synthesise(mc, ap, voiced, encoded[:, codes.PITCH].astype(int), rng))


def measure(dataset: str, work: str, judge: str, count: int, sharpen: float) -> None:
    from judge import Judge

    rng = common.seed_all()
    held = data.sample_held(data.load(dataset, work, "held"), count)
    ears = Judge(judge)
    ticks = common.FRAME // common.TICK
    plain = []
    for u in held:
        n = u.frames() * ticks
        mc, ap = (np.pad(a, ((0, max(0, n - len(a))), (0, 0)), mode="edge")[:n] for a in (u.mc, u.ap))
        voiced = np.pad(u.f0 > 0, (0, max(0, n - len(u.f0))))[:n].astype(np.float32)
        plain.append((u.text, u.language, sum(vocoder.synthesise(mc, ap, voiced, u.pitch(), rng))))
    print("analysis, locked pitch", ears.rate(plain), flush=True)
    if not (Path(work) / "acoustic.pt").exists():
        return
    model = load_model(work)
    spoken = [(u.text, u.language, speak(model, u.encode(rng), rng, sharpen)) for u in held]
    print(f"codes, sharpen {sharpen}", ears.rate(spoken, show=True), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("train", "measure"))
    parser.add_argument("dataset")
    parser.add_argument("work")
    parser.add_argument("judge", nargs="?")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--sharpen", type=float, default=1.0)
    args = parser.parse_args()
    if args.what == "train":
        train(args.dataset, args.work, args.minutes)
    else:
        measure(args.dataset, args.work, args.judge, args.count, args.sharpen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
