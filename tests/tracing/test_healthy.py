"""Steps in which nothing is wrong, or only what reaches nothing; every kind of model that torch runs."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import hnfc
from tests.tracing.functions import Plain, Weighted


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.b, self.other, self.head = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, x):
        h = F.relu(self.norm(self.a(x)))
        return self.head(F.relu(h + self.other(self.b(h))).mean((2, 3)))


class SelfAttention(nn.Module):
    """Query, key and value with a bias each: the gradient of the key's is exactly 0."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        return torch.softmax(self.q(x) @ self.k(x).transpose(-1, -2) / 4, -1) @ self.v(x)


class Options(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, **options):
        return self.linear(x) * options["scale"]


class Saving(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.first, self.second, self.reentrant = nn.Linear(4, 4), nn.Linear(4, 4), reentrant

    def rooted(self, x):
        return torch.sqrt(self.second(x) * 0)

    def forward(self, x):
        return checkpoint(self.rooted, self.first(x), use_reentrant=self.reentrant)


def square(out):
    return (out**2).mean()


def first_square(out):
    return (out[0] ** 2).mean()


torch.manual_seed(0)
HEALTHY = {
    "resnet": (Residual(), torch.randn(4, 3, 16, 16), square),
    "attention": (SelfAttention(), torch.randn(2, 6, 16), square),
    "encoder": (nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), torch.randn(2, 5, 16), lambda out: (out[..., 0] ** 2).mean()),
    "lstm": (nn.LSTM(4, 5), torch.randn(3, 2, 4), first_square),
    "gru": (nn.GRU(4, 8, num_layers=2), torch.randn(12, 2, 4), first_square),
    "dropout": (nn.Sequential(nn.Embedding(9, 8), nn.Dropout(), nn.LayerNorm(8), nn.Linear(8, 3)), torch.tensor([[1, 2], [3, 4]]), square),
    "normalized zeros": (Weighted(lambda w: F.normalize(w, dim=-1), [0.0, 0.0], [1.0, 2.0]), (), None),
    "norm of zeros": (Weighted(lambda w: w.norm(dim=-1), [0.0, 0.0], [1.0, 2.0]), (), None),
    "a mask": (Plain(lambda x: torch.softmax(x.masked_fill(x > 1, -torch.inf), -1)), torch.randn(4, 8), None),
    "overflow that goes": (Plain(lambda x: 1 / (1 + torch.exp(x))), torch.tensor([200.0, 1.0]), None),
    "options": (Options(), {"x": torch.randn(2, 4), "scale": torch.tensor(2.0)}, None),
}


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_where_nothing_is_wrong(name, backward):
    model, sample, loss = HEALTHY[name]
    if name == "overflow that goes" and backward:
        pytest.skip("the gradient is 0 · inf")
    before = {key: value.clone() for key, value in model.state_dict().items()}
    found = hnfc.trace(model, sample, backward=backward, loss=loss)
    assert not found, str(found)
    assert "nothing went wrong" in str(found)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_lengths_as_tensors():
    def aligned(x, targets, lengths, sizes):
        return F.ctc_loss(x.log_softmax(-1), targets, lengths, sizes)

    targets, lengths = torch.tensor([[1, 2], [2, 3]]), torch.tensor([10, 10])
    assert not hnfc.trace(Plain(aligned), (torch.randn(10, 2, 5), targets, lengths, torch.tensor([2, 2])), backward=True)
    short = hnfc.trace(Plain(aligned), (torch.randn(1, 2, 5), targets, torch.tensor([1, 1]), torch.tensor([2, 2])), backward=True)
    assert short.first.operation == "_ctc_loss.Tensor"
    assert "no alignment exists" in short.first.reason


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing(reentrant):
    found = hnfc.trace(Saving(reentrant), torch.randn(2, 4).requires_grad_(), backward=True)
    assert found.first.operation == "sqrt"
    assert found.first.backward
    assert "test_healthy.py:" in found.first.source


def test_a_distributed_model(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
        assert not hnfc.trace(model, torch.randn(6, 4), backward=True, loss=lambda out: (out**3).mean())
        model(torch.randn(6, 4)).sum().backward()  # still works
        torch.distributed.barrier()  # torch waits for ever for a thread that still releases what it sent
    finally:
        torch.distributed.destroy_process_group()


def test_a_model_of_transformers():
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2
    )
    tokens = torch.randint(0, 32, (2, 6))
    model = transformers.LlamaForCausalLM(config)
    assert not hnfc.trace(model, {"input_ids": tokens, "labels": tokens}, backward=True)
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[0, 0] = torch.inf
    found = hnfc.trace(model, {"input_ids": tokens})
    assert "the parameter model.layers.1.mlp.up_proj.weight has inf" in str(found)


def test_gradients_are_asked_for_what_requires_one():
    model = Weighted(lambda w, x: w * x.sqrt(), 1.0, 2.0)
    x = torch.tensor([0.0, 1.0])
    assert not hnfc.trace(model, x, backward=True)  # the gradient by x would be infinite
    assert hnfc.trace(model, x.requires_grad_(), backward=True).first.operation == "sqrt"


def test_loss_takes_the_last_parts_of_a_sample():
    found = hnfc.trace(nn.Linear(2, 1), (torch.ones(3, 2), torch.zeros(3, 1)), backward=True, loss=lambda out, y: (out / y).mean())
    assert found.first.operation == "div.Tensor"
    assert not hnfc.trace(nn.Linear(2, 1), (torch.ones(3, 2), torch.zeros(3, 1)), backward=True, loss=F.mse_loss)
