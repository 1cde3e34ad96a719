"""onnxruntime runs the file, and makes the error that was measured."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.deployment.embedded import WORDS, analyzed

runtime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("formats", "kinds"), [
    (("int8",), {"INT8", "FLOAT"}), (("int4/group32/zero",), {"UINT4", "FLOAT"}),
    pytest.param(("int8/tensor/zero",), {"UINT8", "FLOAT"}, marks=pytest.mark.slow),
    pytest.param(("int4/group64",), {"INT4", "FLOAT"}, marks=pytest.mark.slow),
    pytest.param(("int5/channel",), {"FLOAT"}, marks=pytest.mark.slow),
])  # fmt: skip
def test_the_error_is_that_of_the_run(
    tmp_path: Path, formats: tuple[str, ...], kinds: set[str], capfd: pytest.CaptureFixture[str]
) -> None:
    found = analyzed(*formats)
    types = found.to_onnx(tmp_path / "m.onnx")
    assert set(types.values()) == kinds and capfd.readouterr() == ("", "")
    options = runtime.SessionOptions()
    # by default it rounds the values too, to int8
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"), options, providers=["CPUExecutionProvider"])
    (there,) = session.run(None, {session.get_inputs()[0].name: WORDS.numpy()})
    with torch.no_grad():
        true = found.model(WORDS)
    error = float((torch.from_numpy(there) - true).square().mean().sqrt() / true.square().mean().sqrt())
    assert error == pytest.approx(float(found.measured), rel=1e-3)
