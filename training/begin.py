"""Step 0: train on from a finished checkpoint, such as the one that the package carries.

    python begin.py ../src/kazeia/voice WORK

Writes WORK/talker.pt, WORK/codec.pt and WORK/net.npz, which the steps then resume from (their optimisers begin anew).
Only for checkpoints whose cepstrum was not sharpened (codec.SHARPEN = 1), for that is part of the weights.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import codec
import common
import numpy as np
import synthesis
import torch
from safetensors.torch import load_file
from talker_model import Talker


def talker_state(checkpoint: Path) -> dict[str, torch.Tensor]:
    tensors = load_file(checkpoint / "model.safetensors")
    return {name.removeprefix("talker."): value.float() for name, value in tensors.items()}


def codec_state(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The decoder's trained part, as codec.Front names it."""
    state = {}
    tables, mix = [], []
    for k in range(common.STREAMS):
        part = "rvq_first.vq.layers.0" if k == 0 else f"rvq_rest.vq.layers.{k - 1}"
        tables.append(tensors[f"quantizer.{part}._codebook.embedding_sum"])
    for part in ("rvq_first", "rvq_rest"):
        mix.append(tensors[f"quantizer.{part}.output_proj.weight"][..., 0])
    state["tables"], state["mix"] = torch.stack(tables), torch.stack(mix)
    for name, value in tensors.items():
        if name.startswith(("pre_conv.", "pre_transformer.")):
            state[name] = value
        elif name.startswith(("upsample.0.1.", "upsample.1.1.")):
            _, number, _, rest = name.split(".", 3)
            state[f"blocks.{number}.{rest}"] = value
    up, own = tensors["upsample.0.0.conv.weight"], synthesis.OWN
    state["enter.weight"] = up[: synthesis.SLOT_WIDTH, :own, 0].T.contiguous()
    state["enter.bias"] = tensors["upsample.0.0.conv.bias"][:own]
    up, bias = tensors["upsample.2.0.conv.weight"][..., 0], tensors["upsample.2.0.conv.bias"]
    rows = [*range(synthesis.AT_SHAPE, synthesis.AT_SHAPE + synthesis.SHAPE)]
    rows += range(synthesis.AT_GAIN, synthesis.AT_GAIN + synthesis.GAINS)
    state["leave.weight"], state["leave.bias"] = up[:own, rows].T.contiguous(), bias[rows]
    return state


def net_arrays(tensors: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    p, shape = "upsample.2.1.", slice(synthesis.AT_SHAPE, synthesis.AT_SHAPE + synthesis.SHAPE)
    return {
        "w1": tensors[p + "pwconv1.weight"][:, shape].numpy(),
        "b1": tensors[p + "pwconv1.bias"].numpy(),
        "w2": tensors[p + "pwconv2.weight"][: 2 * synthesis.RANK].numpy(),
        "b2": tensors[p + "pwconv2.bias"][: 2 * synthesis.RANK].numpy(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("work")
    args = parser.parse_args()
    work = common.work_dir(args.work)
    model = Talker()
    model.load_state_dict(talker_state(args.checkpoint))
    torch.save(
        {"model": model.state_dict(), "average": model.state_dict(), "step": 0, "cpu": 0.0},
        work / "talker.pt",
    )
    tensors = load_file(args.checkpoint / "speech_tokenizer" / "model.safetensors")
    tensors = {name.removeprefix("decoder."): value for name, value in tensors.items()}
    front = codec.Front()
    front.load_state_dict(codec_state(tensors))
    torch.save({"model": front.state_dict(), "average": front.state_dict(), "step": 0}, work / "codec.pt")
    np.savez(work / "net.npz", **net_arrays(tensors))
    print(f"{work}: talker.pt, codec.pt, net.npz")
    return 0


if __name__ == "__main__":
    sys.exit(main())
