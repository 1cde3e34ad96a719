"""Peak memory and time of a made-up Llama-shaped model in a folder, layer by layer.

`python benchmarks/sharded.py FOLDER [analyze optimize precision] [--layers 32] [--hidden 4096] [--tokens 64]` writes the model to
FOLDER/model if it is not there (14 GB with the defaults), runs each in a process of its own, and prints its peak beside its limit.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

RUNS = ("analyze", "optimize", "precision")
BESIDE = 1.5e9
"""Bytes that a run may take besides 1.5 times the largest layer with its activations."""


def write_model(folder: Path, layers: int, hidden: int, vocabulary: int) -> None:
    """Writes a model of random bfloat16 weights, a file for each layer, never more than one of them in memory."""
    heads, inner = hidden // 128 or 1, int(hidden * 2.6875)
    folder.mkdir(parents=True)
    matrices = {"self_attn.q_proj": (hidden, hidden), "self_attn.k_proj": (hidden, hidden), "self_attn.v_proj": (hidden, hidden),
                "self_attn.o_proj": (hidden, hidden), "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden),
                "mlp.down_proj": (hidden, inner)}  # fmt: skip
    norms = ("input_layernorm", "post_attention_layernorm")
    for place in range(layers):
        generator = torch.Generator().manual_seed(place)
        tensors = {f"model.layers.{place}.{name}.weight": _random(shape, generator) for name, shape in matrices.items()}
        tensors |= {f"model.layers.{place}.{name}.weight": torch.ones(hidden, dtype=torch.bfloat16) for name in norms}
        save_file(tensors, folder / f"model-layer-{place:03}.safetensors")
    generator = torch.Generator().manual_seed(layers)
    ends = {"model.embed_tokens.weight": _random((vocabulary, hidden), generator) * 50}
    ends |= {"lm_head.weight": _random((vocabulary, hidden), generator), "model.norm.weight": torch.ones(hidden, dtype=torch.bfloat16)}
    save_file(ends, folder / "model-ends.safetensors")
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "hidden_size": hidden, "vocab_size": vocabulary,
        "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": heads,
        "max_position_embeddings": 2048, "tie_word_embeddings": False,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))


def _random(shape: tuple[int, int], generator: torch.Generator) -> torch.Tensor:
    """Normal numbers, of which a block repeats, times a number of each row."""
    block = torch.empty(1 << 20).normal_(0, 0.02, generator=generator)
    rows = torch.empty(shape[0], 1).uniform_(0.5, 1.5, generator=generator).to(torch.bfloat16)
    found = torch.empty(shape, dtype=torch.bfloat16)
    flat = found.view(-1)
    for first in range(0, flat.numel(), block.numel()):
        flat[first : first + block.numel()] = block[: flat.numel() - first]
    return found.mul_(rows)


def run(name: str, folder: Path, tokens: int, threads: int) -> None:
    """Runs one of RUNS in this process, and prints its seconds and peak bytes as JSON."""
    from hnfc import sharded

    torch.set_num_threads(threads)
    start = time.monotonic()
    model = sharded.open_folder(folder / "model")
    sample = {"input_ids": torch.randint(1000, (1, tokens), generator=torch.Generator().manual_seed(0))}

    def progress(text: str) -> None:
        print(f"{time.monotonic() - start:7.1f} s {peak() / 1e9:.2f} GB {text}", file=sys.stderr, flush=True)

    if name == "analyze":
        found = sharded.analyze(model, sample, progress=progress)
        words = {"error": found.error, "layers": len(found.layers), "kinds": len(found.repeats)}
    elif name == "optimize":
        better = sharded.optimize(model, sample, progress=progress)
        words = {"error": better.layers[-1]["after"], "rewritten": sum(layer["rewritten"] for layer in better.layers)}
    else:
        formats = sharded.precision(model, sample, folder / "out", 0.2, ("int8", "int4/group128"), progress=progress)
        words = {"error": formats.measured, "bytes": sum(layer.bytes for layer in formats.layers)}
    print(json.dumps({**words, "seconds": time.monotonic() - start, "peak": peak()}))


def peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("runs", nargs="*", default=RUNS)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1, help="more are slower on processors that others use too")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run(options.runs[0], options.folder, options.tokens, options.threads)
        return
    if not (options.folder / "model").exists():
        # the peak of a process is at least that of the one that started it
        writer = multiprocessing.get_context("fork").Process(
            target=write_model, args=(options.folder / "model", options.layers, options.hidden, options.vocabulary)
        )
        writer.start()
        writer.join()
    layer = 2 * (4 * options.hidden**2 + 3 * options.hidden * int(options.hidden * 2.6875))
    limit = 1.5 * layer + BESIDE
    for name in options.runs:
        settings = ["--tokens", str(options.tokens), "--threads", str(options.threads)]
        command = [sys.executable, __file__, str(options.folder), name, "--child", *settings]
        found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()[-1])
        print(f"{name:10} {found['seconds']:8.1f} s, peak {found['peak'] / 1e9:.2f} GB of {limit / 1e9:.2f} allowed: {found}", flush=True)


if __name__ == "__main__":
    main()
