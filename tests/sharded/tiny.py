"""A model of a few small layers in a folder, as Hugging Face lays it out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch


def write_llama(folder: Path, layers: int = 3, dtype: torch.dtype = torch.float32, seed: int = 0, **settings: Any) -> torch.nn.Module:
    """Writes a model in several files, and returns it."""
    import transformers

    torch.manual_seed(seed)
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 120}
    config = transformers.LlamaConfig(**sizes, num_hidden_layers=layers, max_position_embeddings=64, **settings)
    model = transformers.LlamaForCausalLM(config).to(dtype).eval()
    model.save_pretrained(folder, max_shard_size="80KB")
    model.config.use_cache = False
    return model
