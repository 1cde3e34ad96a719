"""Small models of seven kinds with random weights, and draws of inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import nn

Draw: TypeAlias = Callable[[], tuple[torch.Tensor, ...]]
_WORDS = 500


class Result(nn.Module):
    """A model of transformers of which one result is taken."""

    def __init__(self, model: nn.Module, name: str, **options: Any) -> None:
        super().__init__()
        self.model, self.name, self.options = model, name, options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = getattr(self.model(x, **self.options), self.name)
        return result


def gpt2() -> tuple[nn.Module, Draw]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=4, n_embd=64, n_head=4, vocab_size=_WORDS, n_positions=64, attn_implementation="eager", bos_token_id=0, eos_token_id=0
    )
    return Result(GPT2LMHeadModel(config), "logits", use_cache=False), lambda: (torch.randint(_WORDS, (4, 64)),)


def vit() -> tuple[nn.Module, Draw]:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=64, num_hidden_layers=4, num_attention_heads=4, intermediate_size=256, image_size=64, patch_size=8,
        attn_implementation="eager",
    )  # fmt: skip
    return Result(ViTForImageClassification(config), "logits"), lambda: (torch.randn(4, 3, 64, 64),)


def whisper() -> tuple[nn.Module, Draw]:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=64, encoder_layers=3, encoder_attention_heads=4, encoder_ffn_dim=256, max_source_positions=100, attn_implementation="eager"
    )
    return Result(WhisperEncoder(config), "last_hidden_state"), lambda: (torch.randn(2, 80, 200),)


class UNet(nn.Module):
    """Two levels down and up, with group norms."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()

        def block(inputs: int, outputs: int) -> nn.Module:
            return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(4, outputs), nn.SiLU())

        self.down, self.below, self.bottom = block(3, width), block(width, 2 * width), block(2 * width, 4 * width)
        self.up, self.top = block(6 * width, 2 * width), block(3 * width, width)
        self.last = nn.Conv2d(width, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.down(x)
        second = self.below(F.max_pool2d(first, 2))
        third = self.bottom(F.max_pool2d(second, 2))
        up = self.up(torch.cat((F.interpolate(third, scale_factor=2.0), second), 1))
        result: torch.Tensor = self.last(self.top(torch.cat((F.interpolate(up, scale_factor=2.0), first), 1)))
        return result


class MobileNet(nn.Module):
    """Inverted residuals with depthwise convolutions."""

    def __init__(self, width: int = 16, blocks: int = 4) -> None:
        super().__init__()

        def norm(inputs: int, outputs: int, size: int, groups: int = 1) -> list[nn.Module]:
            return [nn.Conv2d(inputs, outputs, size, padding=size // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)]

        self.stem = nn.Sequential(*norm(3, width, 3), nn.Hardswish())
        self.blocks = nn.ModuleList(
            nn.Sequential(
                *norm(width, 4 * width, 1), nn.Hardswish(), *norm(4 * width, 4 * width, 3, 4 * width), nn.Hardswish(),
                *norm(4 * width, width, 1),
            ) for _ in range(blocks)
        )  # fmt: skip
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.stem(x)
        for block in self.blocks:
            h = h + block(h)
        result: torch.Tensor = self.head(h.mean((-2, -1)))
        return result


class ResNet(nn.Module):
    """Basic blocks, of which every second one halves the image."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.blocks, self.shortcuts = nn.ModuleList(), nn.ModuleList()
        for inputs, outputs, stride in ((width, width, 1), (width, 2 * width, 2), (2 * width, 2 * width, 1), (2 * width, 4 * width, 2)):
            self.blocks.append(nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs),
            ))  # fmt: skip
            self.shortcuts.append(nn.Identity() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride, bias=False))
        self.head = nn.Linear(4 * width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.stem(x)
        for block, shortcut in zip(self.blocks, self.shortcuts, strict=True):
            h = torch.relu(block(h) + shortcut(h))
        result: torch.Tensor = self.head(h.mean((-2, -1)))
        return result


class LanguageModel(nn.Module):
    """Embedding, LSTM, and a head over the words."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.embed, self.lstm, self.head = nn.Embedding(_WORDS, width), nn.LSTM(width, width, batch_first=True), nn.Linear(width, _WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.lstm(self.embed(words))[0])
        return result


def images(size: int) -> Draw:
    return lambda: (torch.randn(4, 3, size, size),)


MODELS: Mapping[str, Callable[[], tuple[nn.Module, Draw]]] = {
    "gpt2": gpt2,
    "vit": vit,
    "whisper": whisper,
    "unet": lambda: (UNet(), images(32)),
    "mobilenet": lambda: (MobileNet(), images(32)),
    "resnet": lambda: (ResNet(), images(32)),
    "lstm": lambda: (LanguageModel(), lambda: (torch.randint(_WORDS, (4, 16)),)),
}
"""Models by name, with draws of their inputs."""
