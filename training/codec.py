"""Step 5: the codec decoder. Its second half is computed (synthesis.py), its first half trained: codes -> latents.

    python codec.py train DATASET WORK --minutes 8        # resumes from WORK/codec.pt
    python codec.py measure DATASET WORK JUDGE [--count 8]

The first half (codebooks, pre_conv, pre_transformer) learns what a phone in its context sounds like.
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
import synthesis
import torch
from torch import nn

import official

torch.set_num_threads(1)
RATE, BATCH = 2e-3, 12
STEP = synthesis.BLOCK


class Front(nn.Module):
    """Codes (B, frames, 16) -> latents (B, frames, LATENT), with the official modules."""

    def __init__(self) -> None:
        super().__init__()
        whole = official.decoder()
        width = whole.config.codebook_dim // 2
        self.tables = nn.Parameter(torch.randn(common.STREAMS, common.CODES, width) * 0.3)
        self.mix = nn.Parameter(torch.randn(2, 2 * width, width) * width**-0.5)  # rvq_first, rvq_rest
        self.pre_conv = whole.pre_conv
        self.pre_transformer = whole.pre_transformer

    def forward(self, encoded: torch.Tensor) -> torch.Tensor:
        first = self.tables[0][encoded[..., 0]]
        rest = sum(self.tables[k][encoded[..., k]] for k in range(1, codes.USED))
        z = first @ self.mix[0].T + rest @ self.mix[1].T
        x = self.pre_conv(z.transpose(1, 2)).transpose(1, 2)
        return self.pre_transformer(inputs_embeds=x).last_hidden_state


def slot_features(u: data.Utterance, shift: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means over slots after `shift` ticks of silence: mc, ap, voiced fraction."""
    n = u.frames(shift * common.TICK) * (common.FRAME // common.TICK)

    def fit(a: np.ndarray) -> np.ndarray:
        return (
            np.pad(a, ((shift, max(0, n - shift - len(a))), (0, 0)), mode="edge")[:n]
            .reshape(-1, 4, a.shape[1])
            .mean(1)
        )

    voiced = (
        np.pad((u.f0 > 0).astype(float), (shift, max(0, n - shift - len(u.f0))))[:n].reshape(-1, 4).mean(1)
    )
    return fit(u.mc), fit(u.ap), voiced


def pair(
    u: data.Utterance, shift: int, basis: synthesis.Basis, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """-> codes (frames, 16) and target latents (frames, GIVEN)."""
    encoded = u.encode(rng, shift * common.TICK)
    return encoded, basis.latents(*slot_features(u, shift), encoded[:, codes.PITCH]).astype(np.float32)


def fit_basis(utterances: list[data.Utterance], path: Path) -> synthesis.Basis:
    if not path.exists():
        mc, ap, pitch = [], [], []
        for u in utterances[:: max(1, len(utterances) // 300)]:
            m, a, v = slot_features(u, 0)
            k = np.repeat(np.clip(u.pitch(), synthesis.PITCHES[0], synthesis.PITCHES[-1]), common.SLOTS)
            mc.append(m[v > 0.5])
            ap.append(a[v > 0.5])
            pitch.append(k[v > 0.5])
        synthesis.Basis.fit(*(np.concatenate(x) for x in (mc, ap, pitch))).save(str(path))
    return synthesis.Basis.load(str(path))


class Loss(nn.Module):
    """Outputs and goals (B, frames, GIVEN), mask (B, frames) -> (envelope, voicing, log noise, pitch)."""

    def __init__(self, basis: synthesis.Basis) -> None:
        super().__init__()
        self.register_buffer("weight", torch.as_tensor(basis.deviation.astype(np.float32)))
        at = np.linspace(0.0, np.pi, 24)
        cosines = np.cos(np.arange(synthesis.GAINS)[:, None] * at[None])
        self.register_buffer("cosines", torch.as_tensor(cosines.astype(np.float32)))

    def forward(self, out: torch.Tensor, goal: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        keep = mask > 0
        out, goal = out[keep][:, : synthesis.GIVEN], goal[keep]
        a = out[:, : common.SLOTS * STEP].reshape(-1, STEP)
        b = goal[:, : common.SLOTS * STEP].reshape(-1, STEP)
        cut = synthesis.SHAPE
        envelope = ((a - b)[:, : cut - 1] * self.weight).square().sum(-1).add(1e-4).sqrt().mean()
        voicing = (a - b)[:, cut - 1].abs().mean()
        noise = [((x[:, cut:] @ self.cosines).square() + 1e-4).log() * 0.5 for x in (a, b)]
        pitch = (out - goal)[:, common.SLOTS * STEP :].square().sum(-1).mean()
        return envelope, voicing, (noise[0] - noise[1]).abs().mean(), pitch


def train_net(dataset: str, work: str, minutes: float) -> None:
    """The shape-to-spectrum network: WORK/net.npz. Needs no codes: real slots, their levels and tilts varied."""
    rng = common.seed_all()
    torch.manual_seed(common.SEED)
    utterances = data.load(dataset, work, "train", 900)
    basis = fit_basis(utterances, Path(work) / "basis.npz")
    parts = [slot_features(u, 0) for u in utterances]
    mc, ap, voiced = (np.concatenate([p[i] for p in parts]) for i in range(3))
    voiced = (voiced > 0.5).astype(float)
    mc[:, synthesis.SHAPE - 1 :] = 0.0
    x = torch.as_tensor(basis.shape(mc, voiced).astype(np.float32))
    y = torch.as_tensor(basis.spectrum(mc, ap, np.ones(len(mc))).astype(np.float32))
    net = nn.Sequential(
        nn.Linear(x.shape[1], synthesis.UNITS), nn.GELU(), nn.Linear(synthesis.UNITS, y.shape[1])
    )
    optimiser = torch.optim.Adam(net.parameters(), 3e-3)
    begun, step, total = time.time(), 0, 0.0
    while (spent := time.time() - begun) < minutes * 60:
        for group in optimiser.param_groups:
            group["lr"] = 3e-3 * max(0.01, 1 - spent / (minutes * 60))
        pick = torch.as_tensor(rng.integers(len(x), size=768))
        shape = x[pick] + 0.03 * torch.randn(len(pick), x.shape[1])
        # Between voiced and unvoiced the voice fades; the first half, unsure of it, asks for all values.
        shape[::2, -1] = (shape[::2, -1] + 0.6 * torch.randn(len(shape[::2]))).clamp(-1.3, 1.3)
        a, b = net(shape), y[pick] * ((shape[:, -1:] + 0.6) / 1.2).clamp(0.0, 1.0)
        loss = ((a - b).square().sum(-1) + 1e-6).sqrt().div((b.norm(dim=-1) + 0.3) ** 0.7).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total += float(loss.detach())
        step += 1
        if step % 250 == 0:
            print(f"net step {step} {total / 250:.4f} {spent:.0f} s", flush=True)
            total = 0.0
    save = {"w1": net[0].weight, "b1": net[0].bias, "w2": net[2].weight, "b2": net[2].bias}
    np.savez(Path(work) / "net.npz", **{k: v.detach().numpy() for k, v in save.items()})


def collate(pairs: list[tuple[np.ndarray, np.ndarray]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    width = max(len(c) for c, _ in pairs)
    encoded = np.zeros((len(pairs), width, common.STREAMS), np.int64)
    goal = np.zeros((len(pairs), width, synthesis.GIVEN), np.float32)
    mask = np.zeros((len(pairs), width), np.float32)
    for i, (c, y) in enumerate(pairs):
        encoded[i, : len(c)], goal[i, : len(c)], mask[i, : len(c)] = c, y, 1.0
    return torch.as_tensor(encoded), torch.as_tensor(goal), torch.as_tensor(mask)


def train(dataset: str, work: str, minutes: float, planned: int) -> None:
    rng = common.seed_all()
    torch.manual_seed(common.SEED)
    utterances = data.load(dataset, work, "train")
    basis = fit_basis(utterances, Path(work) / "basis.npz")
    front, judge = Front(), Loss(basis)
    optimiser = torch.optim.AdamW(front.parameters(), RATE, betas=(0.9, 0.98), weight_decay=0.02)
    path, step = Path(work) / "codec.pt", 0
    if path.exists():
        state = torch.load(path, weights_only=False)
        front.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        step = state["step"]
        rng = np.random.default_rng(common.SEED + step)
    held = collate([pair(u, 0, basis, rng) for u in data.sample_held(data.load(dataset, work, "held"), 24)])
    pairs: list[tuple[np.ndarray, np.ndarray] | None] = [None] * len(utterances)
    begun = last = time.time()
    sums = []
    print(f"{len(utterances)} utterances, step {step}", flush=True)

    def save() -> None:
        torch.save(
            {"model": front.state_dict(), "optimiser": optimiser.state_dict(), "step": step},
            path.with_suffix(".part"),
        )
        path.with_suffix(".part").rename(path)

    while time.time() - begun < minutes * 60:
        for group in optimiser.param_groups:
            group["lr"] = (
                RATE
                * min(1.0, (step + 1) / 100)
                * max(0.03, 0.5 + 0.5 * np.cos(np.pi * min(1.0, step / planned)))
            )
        chosen = rng.integers(len(utterances), size=BATCH)
        for i in chosen:
            # A pair is used four times on average before it is made anew with another shift.
            if pairs[i] is None or rng.random() < 0.25:
                pairs[i] = pair(utterances[i], int(rng.integers(16)), basis, rng)
        front.train()
        encoded, goal, mask = collate([pairs[i] for i in chosen])
        parts = judge(front(encoded), goal, mask)
        loss = 0.3 * parts[0] + parts[1] + 0.5 * parts[2] + 3.0 * parts[3]
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(front.parameters(), 1.0)
        optimiser.step()
        step += 1
        sums.append([float(p.detach()) for p in parts])
        if step % 50 == 0:
            front.eval()
            with torch.no_grad():
                h = judge(front(held[0]), *held[1:])
            print(
                f"step {step} train {np.mean(sums, 0).round(4)} held {[round(float(v), 4) for v in h]} {time.time() - begun:.0f} s",
                flush=True,
            )
            sums = []
        if time.time() - last > 60:
            save()
            last = time.time()
    save()


SHARPEN = 1.15  # a mean over what the codes leave open is smoother than any speech: undone by a stretch of the cepstrum


def whole_decoder(work: str, sharpen: float = SHARPEN) -> nn.Module:
    """The official decoder with the trained first half and the computed second."""
    front = Front()
    front.load_state_dict(torch.load(Path(work) / "codec.pt", weights_only=False)["model"])
    basis = synthesis.Basis.load(str(Path(work) / "basis.npz"))
    made = official.decoder()
    state = made.state_dict()
    with np.load(Path(work) / "net.npz") as z:
        net = {k: z[k] for k in z.files}
    given = {name: torch.as_tensor(value) for name, value in synthesis.weights(basis, net).items()}
    for name, value in front.state_dict().items():
        if name.startswith(("pre_conv", "pre_transformer")):
            given[name] = value
    # The constant is exact, and the noise streams weigh nothing.
    one = synthesis.GIVEN - 1
    given["pre_transformer.output_proj.weight"][one] = 0.0
    given["pre_transformer.output_proj.bias"][one] = 1.0
    shift = (sharpen - 1.0) * torch.as_tensor(basis.mean / basis.deviation).float()
    for j in range(common.SLOTS):
        rows = slice(j * STEP + 1, j * STEP + synthesis.SHAPE - 1)
        given["pre_transformer.output_proj.weight"][rows] *= sharpen
        given["pre_transformer.output_proj.bias"][rows] *= sharpen
        given["pre_transformer.output_proj.bias"][rows] += shift[1:]
    tables = front.tables.detach().clone()
    tables[codes.USED :] = 0.0
    for k in range(common.STREAMS):
        part = "rvq_first.vq.layers.0" if k == 0 else f"rvq_rest.vq.layers.{k - 1}"
        given[f"quantizer.{part}._codebook.embedding_sum"] = tables[k]
        given[f"quantizer.{part}._codebook.cluster_usage"] = torch.ones(common.CODES)
    for i, part in enumerate(("rvq_first", "rvq_rest")):
        given[f"quantizer.{part}.output_proj.weight"] = front.mix[i].detach()[..., None]
        given[f"quantizer.{part}.input_proj.weight"] = torch.zeros_like(
            state[f"quantizer.{part}.input_proj.weight"]
        )
    unknown, missing = set(given) - set(state), set(state) - set(given)
    if unknown or missing:
        raise ValueError(f"tensors that do not fit: unknown {sorted(unknown)}, missing {sorted(missing)}")
    made.load_state_dict(given)
    return made.eval()


@torch.no_grad()
def decode(decoder: nn.Module, encoded: np.ndarray) -> np.ndarray:
    """Codes (frames, 16) -> samples."""
    return decoder(torch.as_tensor(encoded.astype(np.int64)).T[None])[0, 0].numpy()


def measure(dataset: str, work: str, judge: str, count: int, sharpen: float) -> None:
    from judge import Judge

    rng = common.seed_all()
    decoder = whole_decoder(work, sharpen)
    held = data.sample_held(data.load(dataset, work, "held"), count)
    items = [(u.text, u.language, decode(decoder, u.encode(rng))) for u in held]
    print("codec", Judge(judge).rate(items, show=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("net", "train", "measure"))
    parser.add_argument("dataset")
    parser.add_argument("work")
    parser.add_argument("judge", nargs="?")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--planned", type=int, default=2000)
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--sharpen", type=float, default=SHARPEN)
    args = parser.parse_args()
    if args.what == "train":
        train(args.dataset, args.work, args.minutes, args.planned)
    elif args.what == "net":
        train_net(args.dataset, args.work, args.minutes)
    else:
        measure(args.dataset, args.work, args.judge, args.count, args.sharpen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
