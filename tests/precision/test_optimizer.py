"""Formats for whole models: the error that is predicted is the one that is measured, and what cannot be is refused with its reasons."""

from __future__ import annotations

import pickle
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import torch

from hnfc.backend.torch_mlir import emit_torch
from hnfc.core.errors import ModelError, UsageError
from hnfc.formats.granular import rows_of
from hnfc.formats.scaled import split, stored_bytes
from hnfc.precision.assignment import Assignment, Infeasible
from hnfc.precision.cast_insertion import as_module, stored_in
from hnfc.precision.optimizer import PrecisionAnalysis, PrecisionOptimizer
from hnfc.pytorch.program import CapturedProgram
from hnfc.pytorch.settings import Settings
from hnfc.rewriter import load_rules
from tests.analysis.capturing import encoder, mlp


class DoubleExponential(torch.nn.Module):
    """linear, relu, exp(exp), linear: the second exponential is large, and sensitive to the first."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.exp(torch.exp(torch.relu(self.first(x)))))


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def measured(model: torch.nn.Module, mixed: torch.nn.Module, x: torch.Tensor) -> float:
    """The relative root mean square error of the mixed model, against the original in float64."""
    with torch.no_grad():
        found = mixed(x).double()
        true = model.double()(x.double())
        model.float()
    return float((found - true).square().mean().sqrt() / true.square().mean().sqrt())


def analyzed(model: torch.nn.Module, x: torch.Tensor, **requirements: object) -> PrecisionAnalysis:
    return PrecisionOptimizer(**{"least": "bytes", **requirements}).analyze(model, x)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", [1e-2, 1e-3, 2e-4, 3e-5])
def test_the_error_is_as_predicted_on_inputs_that_were_not_seen(target: float) -> None:
    model = encoder(2, 32)
    found = analyzed(model, normal(4, 16, 32), target_accuracy=target)
    assert isinstance(found.outcome, Assignment) and found.error <= target
    assert found.measured == pytest.approx(measured(model, found.apply(), normal(4, 16, 32)), rel=0.1)
    error = measured(model, found.apply(), normal(4, 16, 32, seed=9))
    assert error / 3 < found.error < error * 3
    assert error < 1.5 * target


def test_cheaper_formats_for_looser_targets() -> None:
    model, x = encoder(1, 32), normal(2, 8, 32)
    sizes = [analyzed(model, x, target_accuracy=t).outcome.size for t in (1e-2, 3e-4, 1e-4, 1e-6)]  # type: ignore[union-attr]
    assert sizes == sorted(sizes) and sizes[0] < 0.6 * sizes[-1]


def test_mixed_precision_is_needed_where_no_one_format_does() -> None:
    """float16 overflows after two exponentials, and bfloat16 has too few bits before them; fp32 is not allowed."""
    model, x = DoubleExponential(), (1.5 * normal(256, 8)).clamp(-2.5, 2.5)
    found = analyzed(model, x, target_accuracy=2.5e-2, formats=("bf16", "fp16"), scaling=False)
    assert max(site.magnitude for site in found.sites.sites) > 65504
    assert found.h0_dim == 0 and isinstance(found.outcome, Assignment)
    assert set(found.get_precision_assignment().values()) == {"bf16", "fp16"}
    assert found.h1_cocycle and set(found.h1_cocycle.values()) <= {3, -3}
    assert measured(model, found.apply(), (1.5 * normal(256, 8, seed=5)).clamp(-2.5, 2.5)) < 6e-2


def test_a_target_out_of_reach_is_refused_by_name() -> None:
    model, x = encoder(2, 32), normal(2, 16, 32)
    found = analyzed(model, x, target_accuracy=1e-4, pins={"*norm2*": "bf16"})
    assert isinstance(found.outcome, Infeasible)
    assert all("norm2" in name for name in found.outcome.nodes)
    assert any("bits short" in reason and "*norm2*" in reason for reason in found.outcome.reasons)
    assert any("release the pin `*norm2*`" in r.change for r in found.outcome.relaxations)
    assert sum(found.h1_cocycle.values()) > 0 and found.h0_dim == 0
    with pytest.raises(ModelError, match="norm2"):
        found.get_precision_assignment()
    released = analyzed(model, x, target_accuracy=1e-4)
    assert isinstance(released.outcome, Assignment)


def test_a_core_names_only_the_pins_that_matter() -> None:
    model, x = encoder(2, 32), normal(2, 16, 32)
    found = analyzed(model, x, target_accuracy=1e-4, pins={"*linear1*": "fp32", "*norm2*": "bf16", "*norm1*": "fp32"})
    assert isinstance(found.outcome, Infeasible)
    assert not any("linear1" in reason or "norm1*" in reason for reason in found.outcome.reasons)


def test_an_overflow_is_a_reason() -> None:
    model, x = DoubleExponential(), 2.2 * normal(64, 8)
    found = analyzed(model, x, target_accuracy=0.5, formats=("fp16",), scaling=False)
    assert isinstance(found.outcome, Infeasible)
    assert any("reaches" in reason and "65504" in reason for reason in found.outcome.reasons)


def test_a_vanishing_divisor_is_a_reason() -> None:
    class Adam(torch.nn.Module):
        def forward(self, m: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return m / (torch.sqrt(v) + 1e-8)

    zero = torch.tensor([0.0, 0.5])
    for requirements in ({"formats": ("fp16",), "scaling": False}, {"pins": {"add": "fp16"}}):
        found = PrecisionOptimizer(**requirements).analyze(Adam(), (zero, zero))  # type: ignore[arg-type]
        assert isinstance(found.outcome, Infeasible) and found.outcome.nodes == ("add",)
        assert "is a divisor" in found.outcome.reasons[0] and "1e-08 may not become 0" in found.outcome.reasons[0]
        assert found.outcome.cycle == (("ground", "add", 26), ("add", "ground", -24))
    scaled = PrecisionOptimizer(formats=("fp16",)).analyze(Adam(), (zero, zero)).get_precision_assignment()
    assert {name: form for name, form in scaled.items() if form != "fp16"} == {"add": "fp16*2^-14"}


def test_small_numbers_are_stored_larger() -> None:
    class Tiny(torch.nn.Module):
        """Products of some 1e-8 of which each has its own sign and size."""

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return ((1e-4 * x) * (1e-4 * y)).sum(-1) * 1e8

    model, given, unseen = Tiny(), (normal(64, 32), normal(64, 32, seed=1)), (normal(64, 32, seed=2), normal(64, 32, seed=3))
    refused = PrecisionOptimizer(1e-3, formats=("fp16",), scaling=False).analyze(model, given)
    assert isinstance(refused.outcome, Infeasible)
    found = PrecisionOptimizer(1e-3, formats=("fp16",)).analyze(model, given)
    up = {name: split(form)[1] for name, form in found.get_precision_assignment().items() if split(form)[1]}
    assert up and all(exponent < 0 for exponent in up.values())
    true, away = model(*unseen), found.apply()(*unseen) - model(*unseen)
    assert away.square().mean().sqrt() < 2e-3 * true.square().mean().sqrt()


def test_a_scale_that_a_later_sample_asks_for() -> None:
    """What is estimated of it is of the samples that it was tried on, and not less because of the others."""

    class Cube(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh((x * x * x) * 1e-5)

    small, large = normal(64), 30 * normal(64, seed=1)
    alone, after = (
        PrecisionOptimizer(1e-2, formats=("fp16",)).analyze(Cube(), *samples).sites["mul#2"] for samples in ([large], [small, large])
    )
    (name,) = set(alone.moved) & set(after.moved) - {"fp16", "fp32"}
    assert after.moved[name] == pytest.approx(alone.moved[name], rel=1e-6)


def test_formats_that_torch_lacks_are_simulated() -> None:
    model, x = mlp(), normal(64, 8)
    found = analyzed(model, x, target_accuracy=5e-2, formats=("MXFP8_E4M3", "fp6_e2m3fn", "bf16"))
    chosen = set(found.get_precision_assignment().values())
    assert chosen & {"MXFP8_E4M3", "fp6_e2m3fn"}
    assert measured(model, found.apply(), normal(64, 8, seed=2)) < 8e-2
    program = CapturedProgram.of(model, (x,), {}, Settings(load_rules("none"), edit=found.casts()))
    with pytest.raises(UsageError, match="torch stores no values in"):
        as_module(program.graph, [t.detach() for t in program.signature.gather(model, [x])])


def test_what_estimates_allow_and_a_run_does_not() -> None:
    """The same rounding many times over: each error is small, and all have one sign."""

    class Repeated(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x
            for _ in range(64):
                y = y + 2.0**-9 * x
            return y

    x = 1 + torch.zeros(4, 8)
    found = analyzed(Repeated(), x, target_accuracy=1e-2, formats=("bf16",))
    assert isinstance(found.outcome, Infeasible)
    wider = analyzed(Repeated(), x, target_accuracy=1e-2, formats=("bf16", "fp32"))
    assert isinstance(wider.outcome, Assignment) and wider.outcome.measured is not None
    assert wider.outcome.measured <= 1.1 * wider.outcome.limit * 1.2


class FeedForward(torch.nn.Module):
    """A branch whose result does not fit float16 and is scaled down by the norm that follows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 400 * torch.relu(x) * x
        return y / (y.abs().amax(-1, keepdim=True) + 1)


def test_a_power_of_two_is_preferred_to_a_wider_format() -> None:
    model, x = FeedForward(), 20 * normal(8, 64)
    found = analyzed(model, x, target_accuracy=3e-3, formats=("fp16", "fp32"))
    formats = found.get_precision_assignment()
    scaled = {name: form for name, form in formats.items() if "*2^" in form}
    assert scaled and "fp32" not in formats.values()
    assert measured(model, found.apply(), 20 * normal(8, 64, seed=3)) < 5e-3
    plain = analyzed(model, x, target_accuracy=3e-3, formats=("fp16", "fp32"), scaling=False)
    assert {name for name, form in plain.get_precision_assignment().items() if form == "fp32"} >= scaled.keys()
    assert found.outcome.size < plain.outcome.size  # type: ignore[union-attr]


def test_a_mask_of_the_lowest_number_has_room_in_its_own_format() -> None:
    class Masked(torch.nn.Module):
        def forward(self, scores: torch.Tensor) -> torch.Tensor:
            mask = torch.full((8, 8), torch.finfo(torch.float32).min).triu(1)
            return torch.softmax(scores + mask, -1) @ scores

    for saturation, expected in ((False, "fp32"), (True, "fp16|2^15")):
        found = analyzed(Masked(), normal(8, 8), target_accuracy=5e-3, saturation=saturation)
        assert isinstance(found.outcome, Assignment) and found.outcome.formats["add"] == expected
        assert measured(Masked(), found.apply(), normal(8, 8, seed=4)) < 5e-3


def test_batch_normalization() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
    model[1].running_mean.normal_()
    model[1].running_var.uniform_(0.5, 2)
    found = analyzed(model.eval(), normal(2, 3, 8, 8), target_accuracy=1e-3)
    assert isinstance(found.outcome, Assignment)
    assert found.sites["1.running_mean"].sensitivity > 0 and found.sites["1.running_var"].sensitivity > 0
    error = measured(model, found.apply(), normal(2, 3, 8, 8, seed=3))
    assert error / 3 < found.error < error * 3


class Parts(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        large, _ = (3 * x).square().max(-1, keepdim=True)
        first, second = (x / (large + 1)).chunk(2, -1)
        return first * second


@pytest.mark.parametrize("model", [Parts(), torch.nn.Sequential(torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 4)).eval()])
@pytest.mark.parametrize(("most", "one"), [("fp16", "fp32"), ("fp32", "fp16")])
def test_each_value_around_operations_with_several_results_has_its_format(model: torch.nn.Module, most: str, one: str) -> None:
    x = normal(6, 8)
    found = analyzed(model, x, formats=("fp16", "fp32"))
    assert isinstance(found.outcome, Assignment)
    formats = dict.fromkeys(found.outcome.formats, most)
    for name in formats:
        found.outcome = replace(found.outcome, formats=formats | {name: one})
        assert 0 <= measured(model, found.apply(), x) < 3e-3


def test_memory_and_target_together() -> None:
    model, x = mlp(), normal(16, 8)
    free = analyzed(model, x, target_accuracy=1e-5)
    assert isinstance(free.outcome, Assignment)
    tight = analyzed(model, x, target_accuracy=1e-5, memory_budget=free.outcome.size * 0.6)
    assert isinstance(tight.outcome, Infeasible) and any("bytes" in reason for reason in tight.outcome.reasons)
    assert any("more memory" in r.change for r in tight.outcome.relaxations)


def test_pairs_without_a_cast_have_one_format() -> None:
    model, x = encoder(1, 32), normal(2, 16, 32)
    found = analyzed(model, x, target_accuracy=1e-4, uncast=[("*linear1*", "*")])
    assert isinstance(found.outcome, Assignment)
    formats = found.outcome.formats
    pairs = [(u, v) for u, v in found.sites.edges if "linear1" in found.sites[u].module or "linear1" in found.sites[v].module]
    assert pairs and all(formats[u] == formats[v] for u, v in pairs)


def test_a_policy_is_respected_or_named() -> None:
    model, x = mlp(), normal(16, 8)
    found = analyzed(model, x, target_accuracy=1e-1, policy="p=f32,c=bf16,o=f32")
    assert isinstance(found.outcome, Assignment) and found.policy_string() == "p=f32,c=bf16,o=f32"
    refused = analyzed(model, x, target_accuracy=1e-4, policy="p=f32,c=bf16,o=f32")
    assert isinstance(refused.outcome, Infeasible) and any("c=bf16" in reason for reason in refused.outcome.reasons)


def test_a_policy_in_a_format_that_is_not_among_the_others() -> None:
    """Values that nearly overflow float16 are measured with scales, too, which are no formats of a policy."""
    found = analyzed(FeedForward(), 20 * normal(8, 64), target_accuracy=0.5, formats=("fp16",), policy="p=f32,c=bf16,o=f32")
    assert isinstance(found.outcome, Assignment) and set(found.outcome.formats.values()) == {"bf16", "fp32"}


def test_the_graph_is_written_as_torch_operations() -> None:
    model, x = encoder(1, 32), normal(2, 8, 32)
    found = analyzed(model, x, target_accuracy=1e-3)
    program = CapturedProgram.of(model, (x,), {}, Settings(load_rules("none"), edit=found.casts()))
    tensors = [t.detach() for t in program.signature.gather(model, [x])]
    text = emit_torch(as_module(program.graph, tensors))
    assert "torch.aten.to.dtype" in text and ("f16>" in text or "bf16>" in text)


def test_the_mixed_module_is_a_module_like_the_original() -> None:
    model, x = mlp(), normal(16, 8)
    mixed = analyzed(model, x, target_accuracy=1e-3).apply(train=True)
    assert type(mixed).__name__ == "Sequential" and dict(mixed.named_parameters()).keys() == dict(model.named_parameters()).keys()
    assert mixed(normal(5, 8)).dtype == torch.float32  # another batch
    mixed(x).sum().backward()
    assert all(p.grad is not None and bool(torch.isfinite(p.grad).all()) for p in model.parameters())
    assert torch.equal(pickle.loads(pickle.dumps(mixed))(x), mixed(x))


def test_a_model_in_half_precision_gets_wider_values_where_it_needs_them() -> None:
    class Mean(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * x).mean(-1, keepdim=True) * 1e-3

    found = analyzed(Mean(), (300 + normal(4, 64)).half(), target_accuracy=2e-3, formats=("fp16", "fp32"), scaling=False)
    assert isinstance(found.outcome, Assignment)
    wide = {name for name, form in found.outcome.formats.items() if form == "fp32"}
    assert wide and any("mul" in name or "square" in name for name in wide) and "input 0" not in wide


def test_a_reference_for_fp64_is_in_float64() -> None:
    class Difference(torch.nn.Module):
        def forward(self, n: torch.Tensor) -> torch.Tensor:
            return torch.lgamma(n + 3) - torch.lgamma(n)

    n = torch.tensor([5e6, 3e6, 1e6])
    found = analyzed(Difference(), n, target_accuracy=1e-6, formats=("fp32", "fp64"))
    assert isinstance(found.outcome, Assignment)
    formats = found.get_precision_assignment()
    assert {name for name, form in formats.items() if form == "fp64"} == {"lgamma", "lgamma#2"}
    assert measured(Difference(), found.apply(), n.double()) < 1e-6


def test_autocast_region_by_region() -> None:
    model, x = mlp(), normal(64, 8)
    found = analyzed(model, x, target_accuracy=3e-3, formats=("bf16", "fp32"))
    config = found.to_amp_config()
    assert config.dtype == torch.bfloat16 and set(config.enabled) <= {"", *(name for name, _ in model.named_modules())}
    with config.on(model) as mixed, torch.no_grad():
        assert isinstance(mixed(x), torch.Tensor)
    assert "forward" not in model[0].__dict__
    narrow = PrecisionOptimizer(0.5, formats=("bf16",)).analyze(model, x).to_amp_config()
    assert all(on for path, on in narrow.enabled.items() if path)
    with narrow.on(model), torch.no_grad():
        result = model(x)
    assert result.dtype == torch.bfloat16


def test_the_names_of_the_literature() -> None:
    import hnfc
    from hnfc.sheaf import ComputationGraph
    from hnfc.sheaf import PrecisionOptimizer as Same

    assert Same is PrecisionOptimizer is hnfc.PrecisionOptimizer
    graph = ComputationGraph.from_fx(torch.fx.symbolic_trace(DoubleExponential()))
    assert graph.graph.nodes == ("x", "first", "relu", "exp", "exp_1", "last") and graph.inputs_of("exp_1") == ("exp",)


def test_the_picture() -> None:
    model, x = encoder(1, 32), normal(2, 8, 32)
    for requirements in ({"target_accuracy": 1e-4}, {"target_accuracy": 1e-4, "pins": {"*norm2*": "bf16"}}):
        tree = ElementTree.fromstring(analyzed(model, x, **requirements).visualize_obstruction())
        assert len(tree.findall(".//{http://www.w3.org/2000/svg}rect")) > 5


def test_a_pin_that_matches_nothing_is_said() -> None:
    with pytest.raises(UsageError, match="nowhere"):
        analyzed(mlp(), normal(4, 8), pins={"nowhere*": "bf16"})


def test_blocks_run_on_into_the_axes_before_where_the_last_is_short() -> None:
    assert [rows_of(shape, 32) for shape in ((64, 32, 3, 3), (8, 7), (), (5, 40), (0, 4))] == [(64, 288), (1, 56), (1, 1), (5, 40), (1, 0)]
    # 8 bits for each element, and for each block, the last of a row being short
    assert stored_bytes((5, 40), "MXINT8") == 5 * (40 + 2)
    assert stored_bytes((64,), "fp16*2^-3") == 2 * 64 + 1


def test_the_weights_of_convolutions_fit_blocks() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Conv2d(16, 8, 3), torch.nn.Flatten(1)).eval()
    x, unseen = normal(2, 3, 10, 10), normal(2, 3, 10, 10, seed=1)
    found = PrecisionOptimizer(3e-2, formats=("MXINT8",)).analyze(model, x)
    assert set(found.get_precision_assignment().values()) == {"MXINT8"}
    assert measured(model, found.apply(), unseen) < 3e-2
    weight = found.sites["2.weight"]
    assert weight.shape == (8, 16, 3, 3)
    true = model(x)
    with torch.no_grad():
        model[2].weight.copy_(stored_in(model[2].weight, "MXINT8"))
        away = (model(x) - true).square().mean().sqrt()
    assert weight.moved["MXINT8"] == pytest.approx(float(away), rel=0.3)
