"""Models with several sizes that differ from call to call: the rewrites of one, and its numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.export import Dim
from torch_mlir import ir

import hnfc
from hnfc.backend.on_torch import TorchRunner
from hnfc.core.tensors import to_numpy
from hnfc.frontend.reading import new_context
from hnfc.pipeline.compile import compile_module
from hnfc.pipeline.request import Request

FORMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "logsumexp_fusion": lambda x: torch.log(torch.exp(x).sum((1, 2))),
    "variance_two_pass": lambda x: (x * x).mean(1) - x.mean(1) ** 2,
    "softplus_fusion": lambda x: torch.log(1 + torch.exp(x[:, 0].unsqueeze(-1))).squeeze(-1),
}


class Form(torch.nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.function = FORMS[name]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("axes", [(0, 1), (0, 1, 2)])
def test_several_open_axes_are_rewritten_as_one_is(name: str, axes: tuple[int, ...]) -> None:
    model = Form(name)
    better = hnfc.optimize(model, torch.randn(3, 5, 4), dynamic_shapes={"x": dict.fromkeys(axes, Dim.AUTO)})
    assert name in {rewrite["rule"] for rewrite in hnfc.diff(model, better).data[0]["rewrites"]}
    shape = tuple(size + 1 if axis in axes else size for axis, size in enumerate((3, 5, 4)))
    x = torch.randn(shape)
    torch.testing.assert_close(better(x), model(x))
    assert len(better._hnfc.known) == 1  # type: ignore[union-attr]


VARIANCE = """
func.func @main(%x: !torch.vtensor<[?,?,?],f32>) -> !torch.vtensor<[?,?],f32> {
  %none = torch.constant.none
  %false = torch.constant.bool false
  %one = torch.constant.int 1
  %two = torch.constant.int 2
  %axes = torch.prim.ListConstruct %AXIS : (!torch.int) -> !torch.list<int>
  %square = torch.aten.mul.Tensor %x, %x : !torch.vtensor<[?,?,?],f32>, !torch.vtensor<[?,?,?],f32> -> !torch.vtensor<[?,?,?],f32>
  %a = torch.aten.mean.dim %square, %axes, %false, %none
    : !torch.vtensor<[?,?,?],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[?,?],f32>
  %m = torch.aten.mean.dim %x, %axes, %false, %none
    : !torch.vtensor<[?,?,?],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[?,?],f32>
  %b = torch.aten.mul.Tensor %m, %m : !torch.vtensor<[?,?],f32>, !torch.vtensor<[?,?],f32> -> !torch.vtensor<[?,?],f32>
  %r = torch.aten.sub.Tensor %a, %b, %one : !torch.vtensor<[?,?],f32>, !torch.vtensor<[?,?],f32>, !torch.int -> !torch.vtensor<[?,?],f32>
  return %r : !torch.vtensor<[?,?],f32>
}
"""


@pytest.mark.parametrize("axis", ["one", "two"])
def test_sizes_of_a_file_keep_their_order_where_one_is_1(axis: str) -> None:
    source = ir.Module.parse(VARIANCE.replace("AXIS", axis), new_context())
    compiled = compile_module(source, Request(phases=hnfc.load_rules("stability").allowed()))
    assert [applied.rule.name for applied in compiled.applied] == ["variance_two_pass"]
    x = torch.randn(1, 4, 6)
    (found,) = TorchRunner().load(compiled.export(), "main")([to_numpy(x)])
    assert found == pytest.approx(x.var({"one": 1, "two": 2}[axis], correction=0).numpy(), rel=1e-5)
