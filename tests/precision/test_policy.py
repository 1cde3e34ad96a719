"""Policies: their spelling, what they cast, which one is current, and what they ask of a solver."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import threading
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hnfc.precision import (
    Policy,
    SemanticDType,
    as_format,
    cast_floating,
    current_policy,
    format_named,
    get_policy,
    load_formats,
    round_to,
    use_policy,
)
from hnfc.precision.constraints import policy_constraints, policy_differences
from hnfc.sheaf.difference import Conflict, at_least, least_solution, within
from hnfc.sheaf.ilp import cheapest
from hnfc.sheaf.system import Constraint, System


def names(policy: Policy) -> tuple[str, str, str]:
    return policy.param.name, policy.compute.name, policy.output.name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p=f32,c=bf16,o=f32", ("fp32", "bf16", "fp32")),
        ("params=float32,compute=float16,output=float32", ("fp32", "fp16", "fp32")),
        ("compute=bfloat16,output=full,params=f64", ("fp64", "bf16", "fp32")),
        (" p = f32 , c = half ", ("fp32", "fp16", "fp16")),
        ("c=f16", ("fp32", "fp16", "fp16")),
        ("c=f16,o=full", ("fp32", "fp16", "fp32")),
        ("p=f16", ("fp16", "fp16", "fp16")),
        ("p=f16,c=bf16", ("fp16", "bf16", "bf16")),
        ("o=f16", ("fp32", "fp32", "fp16")),
        ("p=f16,o=bf16", ("fp16", "fp16", "bf16")),
        *((name, ("fp16",) * 3) for name in ("f16", "float16", "half")),
        *((name, ("fp32",) * 3) for name in ("f32", "float32", "full")),
        *((name, ("bf16",) * 3) for name in ("bf16", "bfloat16")),
        *((name, ("fp64",) * 3) for name in ("f64", "float64")),
        ("p=fp8_e4m3fn,c=tf32,o=fixed(3, 4)", ("fp8_e4m3fn", "tf32", "fixed(3, 4)")),
        ("minifloat_ieee(8, 4, bias=3)", ("minifloat_ieee(8, 4, 3)",) * 3),
        ("p=float8_e5m2,c=f8E4M3FN", ("fp8_e5m2", "fp8_e4m3fn_saturating", "fp8_e4m3fn_saturating")),
    ],
)
def test_what_the_text_of_a_policy_means(text: str, expected: tuple[str, str, str]) -> None:
    """The first ones are those of JMP's documentation, tests and code, with what they mean there."""
    policy = Policy.parse(text)
    assert names(policy) == expected and get_policy(text) == policy
    assert Policy.parse(str(policy)) == policy


def test_the_order_of_the_parts_means_nothing() -> None:
    for order in permutations(["p=f32", "c=bf16", "o=f64"]):
        assert str(Policy.parse(",".join(order))) == "p=f32,c=bf16,o=f64"


formats = st.sampled_from(["f16", "bf16", "f32", "f64", "tf32", "fp8_e5m2", "MXFP4_E2M1", "fixed(2, 5)", "int8_affine(0.5)", "log(6)"])


@given(formats, formats, formats)
def test_policies_are_read_back(p: str, c: str, o: str) -> None:
    policy = Policy.parse(f"p={p},c={c},o={o}")
    assert Policy.parse(str(policy)) == policy


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("compute_float16", ("no format `compute_float16`",)),
        ("p=f33", ("no format `f33`", "did you mean")),
        ("p=bflaot16", ("did you mean `bfloat16`?",)),
        ("q=f32", ("there is no `q`", "params (p), compute (c) and output (o)")),
        ("p=f32,p=f16", ("`param` is set twice",)),
        ("p=f32,f16", ("expected `p=`, `c=` or `o=` before `f16`",)),
        ("", ("no format",)),
        ("p=", ("no format",)),
        ("c=fixed(3)", ("needs fraction",)),
        ("c=$", ("no format",)),
    ],
)
def test_what_is_no_policy(text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="policy") as caught:
        Policy.parse(text)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_the_output_may_be_another() -> None:
    assert str(Policy.parse("c=bf16").with_output_dtype("f32")) == "p=f32,c=bf16,o=f32"
    assert str(Policy.parse("c=bf16").with_output_dtype(torch.float64)) == "p=f32,c=bf16,o=f64"


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (np.float16, "fp16"), (np.dtype("float64"), "fp64"), (ml_dtypes.bfloat16, "bf16"), (np.dtype(ml_dtypes.float8_e5m2), "fp8_e5m2"),
        (torch.bfloat16, "bf16"), (torch.float8_e4m3fn, "fp8_e4m3fn_saturating"), (ml_dtypes.float8_e4m3fn, "fp8_e4m3fn"),
        (torch.float8_e5m2fnuz, "fp8_e5m2fnuz"), ("compute", "bf16"), (SemanticDType.PARAM, "fp32"), ("output", "fp64"), ("tf32", "tf32"),
    ],
)  # fmt: skip
def test_what_stands_for_a_format(dtype: Any, name: str) -> None:
    assert as_format(dtype, Policy.parse("p=f32,c=bf16,o=f64")).name == name
    for wrong in (torch.int32, np.int64, "f31"):
        with pytest.raises(ValueError):
            as_format(wrong)


# the current policy -----------------------------------------------------------------------------------------------------------


def test_the_current_policy_is_that_of_the_innermost_block() -> None:
    x = np.ones(2, np.float32)
    assert str(current_policy()) == "p=f32,c=f32,o=f32"
    with use_policy("c=bf16,o=f32") as policy:
        assert current_policy() is policy and cast_floating(x, "compute").dtype == ml_dtypes.bfloat16
        with use_policy(Policy.parse("c=f16")):
            assert cast_floating(x, "compute").dtype == cast_floating(x, SemanticDType.OUTPUT).dtype == np.float16
        assert current_policy() is policy and SemanticDType.COMPUTE.to_dtype().name == "bf16"
        with pytest.raises(ZeroDivisionError), use_policy("f64"):
            _ = 1 / 0
        assert current_policy() is policy
    assert str(current_policy()) == "p=f32,c=f32,o=f32"
    with pytest.raises(ValueError), use_policy("f99"):
        pass


def test_threads_and_tasks_have_policies_of_their_own() -> None:
    seen: dict[str, str] = {}
    barrier = threading.Barrier(2)

    def thread(text: str) -> None:
        with use_policy(text):
            barrier.wait()
            seen[text] = current_policy().compute.name
            barrier.wait()

    async def task(text: str) -> str:
        with use_policy(text):
            await asyncio.sleep(0)
            return current_policy().compute.name

    async def both() -> list[str]:
        return await asyncio.gather(task("f16"), task("bf16"))

    with use_policy("f64"):
        threads = [threading.Thread(target=thread, args=(text,)) for text in ("f16", "bf16")]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert asyncio.run(both()) == ["fp16", "bf16"] and current_policy().compute.name == "fp64"
    assert seen == {"f16": "fp16", "bf16": "bf16"}


# casts ----------------------------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass(frozen=True)
class State:
    weights: Any
    step: int
    nested: Any = None


def tree() -> Any:
    return collections.OrderedDict(
        numpy=np.ones(3, np.float32),
        half=np.ones((2, 2), ml_dtypes.bfloat16),
        tensor=torch.ones(2, dtype=torch.float64),
        integers=[np.arange(3), torch.arange(2), np.array([True])],
        pair=Pair(np.ones(1), "text"),
        state=State(torch.ones(1), 3, (None, 1.5, {"deep": [np.zeros(())]})),
        complex=np.ones(2, np.complex64),
        other=object,
    )


def test_casts_keep_structure_types_and_what_is_no_floating_point_array() -> None:
    before = tree()
    after = cast_floating(before, "f16")
    assert type(after) is collections.OrderedDict and list(after) == list(before)
    assert after["numpy"].dtype == after["half"].dtype == np.float16 and after["half"].shape == (2, 2)
    assert after["tensor"].dtype == torch.float16
    assert all(a is b for a, b in zip(after["integers"], before["integers"], strict=True))
    assert type(after["pair"]) is Pair and after["pair"].left.dtype == np.float16 and after["pair"].right == "text"
    state = after["state"]
    assert type(state) is State and state.weights.dtype == torch.float16 and state.step == 3
    assert state.nested[:2] == (None, 1.5) and state.nested[2]["deep"][0].dtype == np.float16
    assert after["complex"] is before["complex"] and after["other"] is object
    assert before["numpy"].dtype == np.float32 and before["state"].weights.dtype == torch.float32


def test_a_policy_casts_by_role() -> None:
    policy = Policy.parse("p=f64,c=bf16,o=f16")
    x = {"a": np.ones(2, np.float32), "b": torch.ones(2)}
    assert (policy.cast_to_param(x)["a"].dtype, policy.cast_to_param(x)["b"].dtype) == (np.float64, torch.float64)
    assert (policy.cast_to_compute(x)["a"].dtype, policy.cast_to_compute(x)["b"].dtype) == (ml_dtypes.bfloat16, torch.bfloat16)
    assert (policy.cast_to_output(x)["a"].dtype, policy.cast_to_output(x)["b"].dtype) == (np.float16, torch.float16)
    assert cast_floating(x, "param", policy)["b"].dtype == torch.float64


def test_a_state_dict_comes_out_as_one() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    state = module.state_dict()
    half = cast_floating(state, "bf16")
    assert type(half) is type(state) and half._metadata == state._metadata and list(half) == list(state)
    assert half["0.weight"].dtype == torch.bfloat16 and half["1.num_batches_tracked"].dtype == torch.int64
    module.to(torch.bfloat16).load_state_dict(half)
    with pytest.raises(TypeError, match="state_dict"):
        cast_floating({"model": module}, "bf16")


def test_an_array_that_occurs_twice_is_cast_once() -> None:
    shared = torch.ones(3)
    found = cast_floating({"a": shared, "b": [shared]}, "bf16")
    assert found["a"] is found["b"][0]
    assert cast_floating(shared, "f32") is shared
    counting = collections.defaultdict(list, {"x": [np.ones(1)]})
    assert cast_floating(counting, "f16").default_factory is list


@pytest.mark.parametrize(
    "name", ["fp16", "bf16", "fp32", "fp8_e5m2", "fp8_e4m3fn", "fp8_e4m3fn_saturating", "fp8_e4m3fnuz", "e8m0fnu", "fp64"]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_cast_rounds_once_to_the_values_of_the_format(name: str, dtype: Any) -> None:
    x = np.array([1 + 2.0**-8 + 2.0**-30, 1 + 2.0**-11 + 2.0**-40, 465.0, 1e-3, 3.0, 1e30]).astype(dtype)
    expected = np.asarray(round_to(x.astype(np.float64), name))
    for found in (cast_floating(x, name).astype(np.float64), cast_floating(torch.tensor(x), name).to(torch.float64).numpy()):
        assert ((found == expected) | (np.isnan(found) & np.isnan(expected))).all(), (found, expected)


def test_formats_that_no_library_has_stay_in_a_type_that_holds_them() -> None:
    x = np.array([0.1, 1.0, 300.0])
    for name, numpy_type, torch_type in (
        ("fixed(3, 4)", np.float32, torch.float32),
        ("tf32", np.float32, torch.float32),
        ("MXFP4_E2M1", np.float64, torch.float64),
    ):
        in_numpy, in_torch = cast_floating(x, name), cast_floating(torch.tensor(x), name)
        assert in_numpy.dtype == numpy_type and in_torch.dtype == torch_type
        assert (in_numpy == round_to(x, name)).all() and (in_torch.numpy() == in_numpy).all()
        assert cast_floating(cast_floating(x, "f16"), name).dtype == numpy_type
    assert cast_floating(x, "fp6_e2m3fn").dtype == ml_dtypes.float6_e2m3fn
    assert cast_floating(torch.tensor(x), "fp6_e2m3fn").dtype == torch.float32
    wide = cast_floating(torch.tensor([500.0, 3.0]), "fp8_e5m2")
    assert cast_floating(wide, "fp8_e4m3fn").float().isnan().tolist() == [True, False]
    assert cast_floating(wide, "fp8_e4m3fn_saturating").float().tolist() == [448, 3]


@pytest.mark.parametrize("name", ["bf16", "fp16", "fp8_e4m3fn", "fixed(3, 4)", "tf32"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_gradients_pass_casts(name: str, dtype: torch.dtype) -> None:
    x = torch.tensor([0.3, 1.7], dtype=dtype, requires_grad=True)
    (cast_floating(x, name).to(dtype) * torch.tensor([2.0, 3.0], dtype=dtype)).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2, 3]


def test_arrays_of_jax_are_cast(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX is not among what the tests install: something with its names stands for it."""
    import sys
    from types import SimpleNamespace

    class Array:
        def __init__(self, values: Any) -> None:
            self.values = np.asarray(values)
            self.dtype = self.values.dtype

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return self.values

    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(Array=Array, numpy=SimpleNamespace(asarray=Array)))
    found = cast_floating({"x": Array(np.ones(2, np.float32)), "n": Array(np.arange(2))}, "bf16")
    assert isinstance(found["x"], Array) and found["x"].dtype == ml_dtypes.bfloat16 and found["n"].dtype == np.int64


# formats of the user ---------------------------------------------------------------------------------------------------------


def test_formats_of_a_file_are_known_everywhere_by_name(tmp_path: Path) -> None:
    file = tmp_path / "own.hnf"
    file.write_text("format my_e4m2 {\n    exponent = 4\n    fraction = 2\n}\n")
    for _ in range(2):
        assert load_formats(file).format("my_e4m2").bits == 7
    assert round_to(np.array([1.1, 1.2]), "my_e4m2").tolist() == [1.0, 1.25]
    assert Policy.parse("c=my_e4m2").compute == format_named("my_e4m2") < format_named("bf16")
    assert format_named("mx(my_e4m2)").stored_bits == 7.25
    assert cast_floating(torch.tensor([1.1]), "my_e4m2").dtype == torch.float32


# what the solver is asked ---------------------------------------------------------------------------------------------------

ROLES = {"weight": "param", "matmul": "compute", "softmax": "compute", "logits": "output"}
DOMAINS = dict.fromkeys(ROLES, ("fp16", "bf16", "fp32"))


def test_the_solver_gives_what_the_policy_says() -> None:
    policy = Policy.parse("p=f32,c=bf16,o=f16")
    expected = {"weight": "fp32", "matmul": "bf16", "softmax": "bf16", "logits": "fp16"}
    assert cheapest(System(DOMAINS, policy_constraints(policy, ROLES)), {}) == expected
    levels = least_solution(policy_differences(policy, ROLES))
    assert levels == {node: format_named(name).precision for node, name in expected.items()}


def test_what_the_policy_forbids_is_refused_with_its_part() -> None:
    policy = Policy.parse("p=f32,c=bf16,o=f32")
    needs = at_least("exp", 24, "exp reaches 412 and needs 24 bits")
    cast = within("exp", "softmax", 0, "no cast is allowed between exp and softmax")
    conflict = least_solution([needs, *cast, *policy_differences(policy, {"softmax": "compute", "weight": "param"})])
    assert isinstance(conflict, Conflict) and conflict.gap == 16
    assert {d.reason for d in conflict.cycle} == {needs.reason, cast[0].reason, "softmax is computed, and the policy says c=bf16"}


def test_the_policy_and_a_pin_conflict_in_a_system() -> None:
    pin = Constraint("softmax is pinned to fp32", ("softmax",), lambda value: value == "fp32")
    asked = policy_constraints(Policy.parse("c=bf16"), ROLES)
    assert cheapest(System(DOMAINS, (*asked, pin)), {}) is None
    kept = tuple(c for c in asked if c.scope != ("softmax",))
    assert cheapest(System(DOMAINS, (*kept, pin)), {}) is not None
    assert [c.reason for c in asked if c.scope == ("softmax",)] == ["softmax is computed, and the policy says c=bf16"]
