"""Spectral norms and condition numbers beside NumPy's singular values."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

import hnfc
from hnfc.analysis.spectral import condition_number, spectra, spectral_norm
from hnfc.cli.main import main
from tests.exporting import export_torch


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (40, 40), (7, 300), (600, 520)])
def test_norm_and_condition(shape):
    a = np.random.default_rng(sum(shape)).normal(size=shape)
    singular = np.linalg.svd(a, compute_uv=False)
    norm = spectral_norm(a)
    assert norm <= singular[0] * (1 + 1e-12) and norm == pytest.approx(singular[0], rel=5e-3)
    assert condition_number(a) == pytest.approx(singular[0] / singular[-1], rel=1e-6)


def test_matrices_at_the_edge():
    assert spectral_norm(np.zeros((3, 4))) == 0.0
    assert condition_number(np.zeros((3, 4))) == math.inf
    assert condition_number(np.diag([1.0, 1e-5, 0.0])) == math.inf
    assert condition_number(np.full((2, 2), np.nan)) == math.inf
    assert spectra([("bias", np.ones(4)), ("empty", np.ones((0, 3)))]) == []


def test_the_weights_of_a_module():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.Flatten(), torch.nn.Linear(64, 5)).eval()
    with torch.no_grad():
        model[2].weight[1] = model[2].weight[0] + 1e-4 * torch.randn(64)
    first, second = hnfc.analyze(model, torch.randn(2, 1, 6, 6)).spectra()
    assert (first.name, first.shape, second.name, second.shape) == ("2.weight", (5, 64), "0.weight", (4, 1, 3, 3))
    assert first.condition > 1000 > second.condition
    assert first.norm == pytest.approx(np.linalg.norm(model[2].weight.detach().numpy(), 2), rel=5e-3)


def test_the_weights_of_a_file(tmp_path, capsys):
    torch.manual_seed(0)
    layer = torch.nn.Linear(6, 4).eval()
    path, out = tmp_path / "m.mlir", tmp_path / "o.json"
    path.write_text(str(export_torch(layer, torch.randn(2, 6))))
    assert main(["analyze", str(path), "--range", "-1:1", "--weights", "--json", str(out)]) == 0
    assert "spectral norm" in capsys.readouterr().out
    (found,) = json.loads(out.read_text())["weights"]
    assert found["condition"] == pytest.approx(np.linalg.cond(layer.weight.detach().numpy()), rel=1e-5)
