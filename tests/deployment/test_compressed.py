"""compressed-tensors, which vLLM reads checkpoints by, decompresses the numbers that were stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from hnfc.deployment.weights import plain
from tests.deployment.embedded import analyzed

pytest.importorskip("compressed_tensors")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("formats", [
    ("int8",), ("int4/group32",), ("int4/group64/zero",), ("int8/channel/zero",), ("int8/tensor", "fp32"), ("int4/channel/mse", "bf16"),
    ("int5/tensor/zero",), ("int8", "int4", "fp32"), ("mxfp4",),
], ids="+".join)  # fmt: skip
def test_the_numbers_are_those_that_are_stored(tmp_path: Path, formats: tuple[str, ...]) -> None:
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationConfig

    found = analyzed(*formats, target=2e-2 if len(formats) == 3 else 0.5)
    config = found.to_compressed_tensors(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["quantization_config"] == config
    there, state = load_file(tmp_path / "model.safetensors"), found.apply().state_dict()
    read = QuantizationConfig.model_validate(config)
    layers = {path: scheme for scheme in read.config_groups.values() for path in scheme.targets}
    assert set(layers) | set(config["ignore"]) == {"up", "down"}
    compressor = BaseCompressor.get_value_from_registry(config["format"])
    for name, tensor in state.items():
        path = name.rpartition(".")[0]
        if name.endswith("weight") and path in layers:
            own = {key.removeprefix(f"{path}."): value for key, value in there.items() if key.startswith(f"{path}.")}
            assert torch.equal(compressor.decompress(own, layers[path])["weight"].float(), plain(tensor))
        else:
            assert torch.equal(there[name], plain(tensor))
