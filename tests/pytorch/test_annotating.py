"""`hnfc.annotate` writes what is so onto the nodes of graphs that torch makes."""

from __future__ import annotations

import pytest
import torch
from torch import fx, nn

import hnfc
from hnfc.core.errors import ModelError, UsageError
from hnfc.precision.computation import ComputationGraph


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(torch.tanh(self.first(x)))
        return result


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


X = torch.randn(32, 8, generator=torch.Generator().manual_seed(0))


def facts(graph: fx.GraphModule) -> dict[str, dict[str, object]]:
    return {node.name: node.meta["hnfc"] for node in graph.graph.nodes if "hnfc" in node.meta}


def test_a_traced_graph(net: Net) -> None:
    graph = hnfc.annotate(fx.symbolic_trace(net), X, 3 * X)
    found = facts(graph)
    assert list(found) == ["x", "first", "tanh", "last"]
    inner = torch.tanh(net.first(torch.cat((X, 3 * X)))).detach()
    assert found["tanh"]["range"] == (float(inner.min()), float(inner.max()))
    # an output that is off by u moves by u, of which the root mean square is 1/√3
    assert found["last"]["sensitivity"] == pytest.approx(3**-0.5, rel=1e-5) and found["last"]["format"] == "fp32"
    assert found["last"]["error"] == pytest.approx(3**-0.5 * 2.0**-24, rel=1e-5)
    assert torch.equal(graph(X), net(X))
    assert ComputationGraph.from_fx(graph).facts["tanh"] is found["tanh"]


@pytest.mark.parametrize("node", ["x", "tanh"])
def test_a_sensitivity_is_what_roundings_move(net: Net, node: str) -> None:
    found = facts(hnfc.annotate(fx.symbolic_trace(net), X.repeat(64, 1)))
    x = X.repeat(64, 1).double()
    net.double()
    noise = torch.rand(4096, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)[: len(x)] * 2 - 1
    true, inner = net(x), torch.tanh(net.first(x))
    moved = net(x * (1 + 1e-6 * noise[:, :8])) if node == "x" else net.last(inner * (1 + 1e-6 * noise))
    ratio = float(((moved - true).square().mean() / true.square().mean()).sqrt().detach()) / 1e-6
    assert found[node]["sensitivity"] == pytest.approx(ratio, rel=0.15)


def test_an_exported_graph_knows_its_source(net: Net) -> None:
    found = facts(hnfc.annotate(torch.export.export(net, (X,)).module(), X))
    assert any(__file__ in str(values["source"]) for values in found.values())
    assert {values["format"] for values in facts(hnfc.annotate(fx.symbolic_trace(net.bfloat16()), X.bfloat16())).values()} == {"bf16"}


def test_infinite_elements_are_counted() -> None:
    graph = fx.symbolic_trace(nn.Sequential(nn.Softplus(), nn.ReLU()))
    found = facts(hnfc.annotate(graph, torch.tensor([1.0, float("inf"), -2.0])))
    assert all(values["nonfinite"] == 1 and values["range"][1] < 2 for values in found.values())  # type: ignore[index]


def test_a_sample_by_names(net: Net) -> None:
    assert "tanh" in facts(hnfc.annotate(fx.symbolic_trace(net), {"x": X}))
    with pytest.raises(UsageError, match="the sample has no `x`"):
        hnfc.annotate(fx.symbolic_trace(net), {"y": X})


def test_what_cannot_be_watched_is_refused(net: Net) -> None:
    class Writing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 1.0
            y[0].add_(1.0)
            return y

    with pytest.raises(ModelError, match="writes to its values in place"):
        hnfc.annotate(fx.symbolic_trace(Writing()), X)
    with pytest.raises(UsageError, match=r"takes a torch\.fx\.GraphModule, not Net"):
        hnfc.annotate(net, X)  # type: ignore[arg-type]
    whole = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(8, 2))
    assert len(facts(hnfc.annotate(fx.symbolic_trace(whole), X))) == 3
