"""Step 5: the codec decoder. From `upsample.2` on it is computed (synthesis.py), what stands before is trained.

    python codec.py net DATASET WORK --minutes 1          # the shape-to-spectrum network, WORK/net.npz
    python codec.py train DATASET WORK --minutes 20       # resumes from WORK/codec.pt
    python codec.py measure DATASET WORK JUDGE [--count 8]

Codebooks, pre_conv and pre_transformer gather what the codes say about each slot (phones before and after, since when,
for how long); two ConvNeXt blocks at slot rate, the same for all slots, say what that sounds like.
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
import phones
import synthesis
import torch
from torch import nn

import official

torch.set_num_threads(1)
RATE, WINDOW, WINDOWS = 2e-3, 24, 24  # a step sees WINDOWS pieces of WINDOW frames
HINT = 0.1  # weight of the hints
WARM = 3  # frames at the start of a piece that only serve as context
SHIFTS = 12  # time shifts of every clip
QUIET = 0.25  # weight of slots in silence and pauses
HINTS = (common.CODES,) * 5 + (codes.LONGEST + 1,) * 3  # classes of the columns of codes.slot_context


class Front(nn.Module):
    """Codes (B, frames, 16) -> slots (B, frames · 4, BLOCK) and pitch (B, frames, PITCHES), with the official modules."""

    def __init__(self) -> None:
        super().__init__()
        whole = official.decoder()
        width = whole.config.codebook_dim // 2
        self.tables = nn.Parameter(torch.randn(common.STREAMS, common.CODES, width) * 0.3)
        self.mix = nn.Parameter(torch.randn(2, 2 * width, width) * width**-0.5)  # rvq_first, rvq_rest
        self.pre_conv = whole.pre_conv
        self.pre_transformer = whole.pre_transformer
        self.enter = nn.Linear(synthesis.SLOT_WIDTH, synthesis.OWN)
        self.blocks = nn.ModuleList([whole.upsample[i][1] for i in range(2)])
        self.leave = nn.Linear(synthesis.OWN, synthesis.BLOCK)
        for block in self.blocks:
            nn.init.constant_(block.gamma, 0.3)
        self.guard()

    @torch.no_grad()
    def guard(self) -> None:
        """Pitch and slot number pass the blocks unchanged."""
        for block in self.blocks:
            block.gamma[synthesis.OWN :] = 0.0

    def gather(self, encoded: torch.Tensor) -> torch.Tensor:
        """Codes -> the frames' latents (B, frames, LATENT)."""
        first = self.tables[0][encoded[..., 0]]
        rest = sum(self.tables[k][encoded[..., k]] for k in range(1, codes.HEARD))
        z = first @ self.mix[0].T + rest @ self.mix[1].T
        x = self.pre_conv(z.transpose(1, 2)).transpose(1, 2)
        return self.pre_transformer(inputs_embeds=x).last_hidden_state

    def forward(self, encoded: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.say(self.gather(encoded))

    def say(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch, frames = z.shape[:2]
        pitch = z[..., synthesis.FRAME_PITCH : synthesis.FRAME_ONE]
        own = self.enter(z[..., : synthesis.FRAME_PITCH].reshape(batch, -1, synthesis.SLOT_WIDTH))
        slot = torch.eye(common.SLOTS).repeat(batch, frames, 1)
        between = torch.zeros(batch, frames * common.SLOTS, synthesis.AT_SLOT - synthesis.AT_GAIN)
        rest = torch.zeros(batch, frames * common.SLOTS, synthesis.LATENT - synthesis.AT_LEVEL)
        y = torch.cat([own, pitch.repeat_interleave(common.SLOTS, 1), between, slot, rest], -1).transpose(
            1, 2
        )
        for block in self.blocks:
            y = block(y)
        return self.leave(y.transpose(1, 2)[..., : synthesis.OWN]), pitch


class Hints(nn.Module):
    """What a slot's latents should tell of its context (codes.slot_context): a loss that teaches the transformer to gather."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.Linear(synthesis.SLOT_WIDTH, sum(HINTS))

    def forward(self, z: torch.Tensor, context: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        keep = weight.reshape(-1) > 0
        own = z[..., : synthesis.FRAME_PITCH].reshape(-1, synthesis.SLOT_WIDTH)[keep]
        parts = self.heads(own).float().split(HINTS, -1)
        goals = context.reshape(-1, codes.CONTEXT)[keep]
        return sum(nn.functional.cross_entropy(a, goals[:, i]) for i, a in enumerate(parts))


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


class Clips:
    """Codes, slots and weights of all clips at several time shifts, end to end, and where each begins."""

    def __init__(
        self,
        utterances: list[data.Utterance],
        basis: synthesis.Basis,
        quiet: list[int],
        shifts: int,
        seed: int,
    ) -> None:
        rng = np.random.default_rng(seed)
        encoded, goals, weights, contexts, length = [], [], [], [], []
        for u in utterances:
            for shift in rng.permutation(16)[:shifts] if shifts > 1 else [0]:
                c = u.encode(rng, int(shift) * common.TICK)
                slots = basis.slots(*slot_features(u, int(shift)))
                inside = np.arange(len(slots)) * 4
                weight = ((inside >= shift) & (inside + 4 <= shift + len(u.mc))).astype(np.float32)
                phone = c[:, codes.SLOT0 : codes.SLOT0 + common.SLOTS].reshape(-1)
                weight[np.isin(phone, quiet)] *= QUIET
                encoded.append(c)
                goals.append(slots.astype(np.float32).reshape(len(c), common.SLOTS, -1))
                weights.append(weight.reshape(len(c), common.SLOTS))
                contexts.append(codes.slot_context(c).astype(np.int16).reshape(len(c), common.SLOTS, -1))
                length.append(len(c))
        self.codes, self.goals, self.weights, self.contexts = (
            torch.as_tensor(np.concatenate(x)) for x in (encoded, goals, weights, contexts)
        )
        self.start = np.concatenate([[0], np.cumsum(length)])

    def whole(self, number: int) -> tuple[torch.Tensor, ...]:
        part = slice(self.start[number], self.start[number + 1])
        return self.codes[part][None].long(), self.goals[part][None], self.weights[part][None]

    def draw(self, rng: np.random.Generator) -> tuple[torch.Tensor, ...]:
        """WINDOWS random pieces of WINDOW frames; all frames are equally likely."""
        at = rng.integers(self.start[-1] - WINDOW, size=WINDOWS)
        rows = torch.as_tensor(at[:, None] + np.arange(WINDOW)[None])
        weight = self.weights[rows].clone()
        for i, first in enumerate(at):
            # A clip that begins inside the piece: its first frames must not be judged by what they heard of another.
            clip = np.searchsorted(self.start, first, side="right")
            weight[i, :WARM] = 0.0
            if (cut := self.start[clip] - first) < WINDOW:
                if cut > WINDOW // 2:
                    weight[i, cut:] = 0.0
                else:
                    weight[i, :cut] = 0.0
                    rows[i] = (
                        torch.as_tensor(self.start[clip] + np.arange(WINDOW))
                        if self.start[clip] + WINDOW <= self.start[-1]
                        else rows[i]
                    )
                    weight[i] = self.weights[rows[i]]
                    end = self.start[min(clip + 1, len(self.start) - 1)] - self.start[clip]
                    weight[i, end:] = 0.0
        return self.codes[rows].long(), self.goals[rows], weight, self.contexts[rows].long()


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
    """-> (envelope, voicing, log noise, pitch): means over slots by their weights."""

    def __init__(self, basis: synthesis.Basis) -> None:
        super().__init__()
        self.register_buffer("weight", torch.as_tensor(basis.deviation.astype(np.float32)))
        at = np.linspace(0.0, np.pi, 24)
        cosines = np.cos(np.arange(synthesis.GAINS)[:, None] * at[None])
        self.register_buffer("cosines", torch.as_tensor(cosines.astype(np.float32)))

    def forward(
        self,
        out: torch.Tensor,
        pitch: torch.Tensor,
        encoded: torch.Tensor,
        goal: torch.Tensor,
        weight: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        a, b, w = out.reshape(-1, synthesis.BLOCK), goal.reshape(-1, synthesis.BLOCK), weight.reshape(-1)
        w = w / w.sum()
        cut = synthesis.SHAPE
        envelope = ((a - b)[:, : cut - 1] * self.weight).square().sum(-1).add(1e-4).sqrt() @ w
        voicing = (a - b)[:, cut - 1].abs() @ w
        noise = [((x[:, cut:] @ self.cosines).square() + 1e-4).log() * 0.5 for x in (a, b)]
        k = (
            encoded[..., codes.PITCH].clamp(synthesis.PITCHES[0], synthesis.PITCHES[-1])
            - synthesis.PITCHES[0]
        )
        hot = nn.functional.one_hot(k, len(synthesis.PITCHES)).float()
        return (
            envelope,
            voicing,
            (noise[0] - noise[1]).abs().mean(-1) @ w,
            (pitch - hot).square().sum(-1).mean(),
        )


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


def train(dataset: str, work: str, minutes: float, planned: int) -> None:
    rng = common.seed_all()
    torch.manual_seed(common.SEED)
    table = phones.symbols_of(dataset, work)
    quiet = [i for name, i in table.items() if name == common.SILENCE or name in common.PAUSES]
    utterances = data.load(dataset, work, "train")
    basis = fit_basis(utterances, Path(work) / "basis.npz")
    front, hints, average, judge = Front(), Hints(), Front(), Loss(basis)
    average.load_state_dict(front.state_dict())
    optimiser = torch.optim.AdamW(
        [*front.parameters(), *hints.parameters()], RATE, betas=(0.9, 0.98), weight_decay=0.02
    )
    path, step = Path(work) / "codec.pt", 0
    if path.exists():
        state = torch.load(path, weights_only=False)
        for part, name in (
            (front, "model"),
            (average, "average"),
            (hints, "hints"),
            (optimiser, "optimiser"),
        ):
            if name in state:  # begin.py makes one without the last two
                part.load_state_dict(state[name])
        step = state["step"]
        rng = np.random.default_rng(common.SEED + step)
    held = Clips(data.sample_held(data.load(dataset, work, "held"), 12), basis, quiet, 1, 1)
    clips = Clips(utterances, basis, quiet, SHIFTS, common.SEED)
    begun = last = time.time()
    sums = []
    print(f"{len(utterances)} utterances, {clips.start[-1]} frames, step {step}", flush=True)

    def save() -> None:
        torch.save(
            {
                "model": front.state_dict(),
                "average": average.state_dict(),
                "hints": hints.state_dict(),
                "optimiser": optimiser.state_dict(),
                "step": step,
            },
            path.with_suffix(".part"),
        )
        path.with_suffix(".part").rename(path)

    while time.time() - begun < minutes * 60 and step < planned:
        for group in optimiser.param_groups:
            group["lr"] = (
                RATE
                * min(1.0, (step + 1) / 100)
                * max(0.02, 0.5 + 0.5 * np.cos(np.pi * min(1.0, step / planned)))
            )
        front.train()
        encoded, goal, weight, context = clips.draw(rng)
        with torch.autocast("cpu", torch.bfloat16, enabled=common.half()):
            z = front.gather(encoded)
            out = front.say(z)
        hint = hints(z.float(), context, weight)
        parts = judge(*(o.float() for o in out), encoded, goal, weight)
        loss = 0.3 * parts[0] + parts[1] + 1.2 * parts[2] + 3.0 * parts[3] + HINT * hint
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(front.parameters(), 1.0)
        optimiser.step()
        front.guard()
        step += 1
        with torch.no_grad():
            keep = min(0.995, step / (step + 20))
            for a, p in zip(average.parameters(), front.parameters(), strict=True):
                a.lerp_(p, 1 - keep)
        sums.append([float(p.detach()) for p in (*parts, hint)])
        if step % 100 == 0:
            average.eval()
            with torch.no_grad():
                rows = [held.whole(i) for i in range(len(held.start) - 1)]
                h = np.mean([[float(v) for v in judge(*average(e), e, g, w)] for e, g, w in rows], 0)
            print(
                f"step {step} train {np.mean(sums, 0).round(3)} held {h.round(3)} {time.time() - begun:.0f} s",
                flush=True,
            )
            sums = []
        if time.time() - last > 60:
            save()
            last = time.time()
    save()


SHARPEN = 1.0


def whole_decoder(work: str, sharpen: float = SHARPEN) -> nn.Module:
    """The official decoder with the trained first half and the computed second."""
    front = Front()
    front.load_state_dict(torch.load(Path(work) / "codec.pt", weights_only=False)["average"])
    basis = synthesis.Basis.load(str(Path(work) / "basis.npz"))
    made = official.decoder()
    state = made.state_dict()
    with np.load(Path(work) / "net.npz") as z:
        net = {k: z[k] for k in z.files}
    leave_weight, leave_bias = (p.detach().numpy().copy() for p in (front.leave.weight, front.leave.bias))
    rows = slice(1, synthesis.SHAPE - 1)
    leave_weight[rows] *= sharpen
    leave_bias[rows] = leave_bias[rows] * sharpen + (sharpen - 1.0) * (basis.mean / basis.deviation)[1:]
    enter = (front.enter.weight.detach().numpy(), front.enter.bias.detach().numpy())
    computed = synthesis.weights(basis, net, enter, (leave_weight, leave_bias))
    given = {name: torch.as_tensor(value) for name, value in computed.items()}
    for name, value in front.state_dict().items():
        if name.startswith(("pre_conv", "pre_transformer")):
            given[name] = value
        elif name.startswith("blocks."):
            _, number, rest = name.split(".", 2)
            given[f"upsample.{number}.1.{rest}"] = value
    # The constant is exact, and the noise streams weigh nothing.
    given["pre_transformer.output_proj.weight"][synthesis.FRAME_ONE] = 0.0
    given["pre_transformer.output_proj.bias"][synthesis.FRAME_ONE] = 1.0
    tables = front.tables.detach().clone()
    tables[codes.HEARD :] = 0.0
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
