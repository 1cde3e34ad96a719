"""There and back: JAX exports a function, hnfc rewrites it, JAX runs the result. Skipped where JAX is not installed."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from hnfc.backend.stablehlo import emit_portable
from hnfc.cli.main import main
from hnfc.core.errors import ModelError
from hnfc.frontend.models import read_model
from hnfc.pipeline.compile import compile_module
from hnfc.pipeline.request import Request
from hnfc.rewriter import load_rules

jax = pytest.importorskip("jax")

from tests.data.jax import export  # noqa: E402


def through_hnfc(exported, inputs):
    """The exported function, rewritten."""
    rules = load_rules("stability")
    flat = [np.asarray(leaf) for leaf in jax.tree.leaves(inputs)]
    compiled = compile_module(read_model(exported.mlir_module_serialized), Request(phases=rules.allowed(), samples=[flat], observed=True))
    module = compiled.export()
    return dataclasses.replace(exported, mlir_module_serialized=emit_portable(module)), {applied.rule.name for applied in compiled.applied}


def drawn(arguments, size):
    generator = np.random.default_rng(0)

    def leaf(spec):
        shape = [dim if isinstance(dim, int) else 3 for dim in spec.shape]
        values = generator.normal(size=shape) * size if spec.dtype == np.float32 else generator.integers(0, 4, shape)
        return values.astype(spec.dtype)

    return jax.tree.map(leaf, tuple(arguments), is_leaf=lambda node: isinstance(node, jax.ShapeDtypeStruct))


@pytest.mark.parametrize("name", export.EXPORTED)
def test_there_and_back(name):
    function, *arguments = export.EXPORTED[name]
    exported = jax.export.export(jax.jit(function), platforms=["cpu"])(*arguments)
    inputs = drawn(arguments, 1)
    better, _ = through_hnfc(exported, inputs)
    for found, wanted in zip(jax.tree.leaves(better.call(*inputs)), jax.tree.leaves(exported.call(*inputs)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    again = jax.export.deserialize(better.serialize())
    np.testing.assert_array_equal(jax.tree.leaves(again.call(*inputs))[0], jax.tree.leaves(better.call(*inputs))[0])


def test_a_softmax_that_overflowed_does_not():
    function, *arguments = export.EXPORTED["softmax"]
    exported = jax.export.export(jax.jit(function), platforms=["cpu"])(*arguments)
    inputs = drawn(arguments, 300)
    better, fired = through_hnfc(exported, inputs)
    assert fired == {"softmax_fusion"}
    assert np.isnan(exported.call(*inputs)).any() and np.isfinite(better.call(*inputs)).all()
    np.testing.assert_allclose(better.call(*inputs), jax.nn.softmax(inputs[0]), rtol=1e-5, atol=1e-6)


def test_the_stored_files_are_what_the_script_writes():
    """JAX may change the form of its output; then the script is to be run again, and this says so."""
    function, *arguments = export.EXPORTED["softmax"]
    text = jax.export.export(jax.jit(function), platforms=["cpu"])(*arguments).mlir_module()
    stored = (export.HERE / "softmax.mlir").read_text(encoding="utf-8")
    assert str(read_model(text.encode())) == str(read_model(stored.encode()))


def test_the_page_on_jax(tmp_path, monkeypatch):
    """Its blocks, in order: what is Python is run, and so is the command."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parent.parent.parent / "docs" / "jax-and-onnx.md").read_text(encoding="utf-8")
    section = page.split("## JAX, there and back")[1].split("## ")[0]
    names: dict = {}
    for kind, block in re.findall(r"```(python)?\n(.*?)```", section, re.DOTALL):
        if kind:
            exec(block, names)
        else:
            assert main(shlex.split(block)[1:]) == 0
    np.testing.assert_allclose(names["better"].call(names["x"]), [[0, 0, 1]], atol=1e-6)
    assert np.isnan(names["exported"].call(names["x"])).any()


def test_an_artifact_with_shardings_is_refused_in_one_line(capfd):
    exported = jax.export.export(jax.jit(jax.numpy.linalg.inv), platforms=["cpu"])(np.eye(3, dtype=np.float32))
    with pytest.raises(ModelError, match=r"says how arrays are sharded \(the dialect `sdy`\)"):
        read_model(exported.mlir_module_serialized, "inverse.mlirbc")
    assert capfd.readouterr().err == ""
