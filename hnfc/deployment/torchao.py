"""Settings of `torchao.quantization.quantize_`, layer by layer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import Any

import torch

from hnfc.core.errors import UsageError
from hnfc.deployment.optional import needed
from hnfc.dialects.formats import Fixed
from hnfc.formats.granular import Along, Granular
from hnfc.formats.scaled import stored_format

_HAS = "int8/channel, int4/group32 and the like in linear layers and embeddings, or int8/tensor and fp8/channel in linear layers"


def torchao_config(model: torch.nn.Module, formats: Mapping[str, str], dynamic: Collection[str]) -> Any:
    """An FqnToConfig for `quantize_(model, config, filter_fn=None)`. formats: of weights that have no type of torch, by name.
    dynamic: weights whose other operand is in int8 by token. Raises UsageError for what torchao has no format for."""
    wrong = [f"{name} in {form}" for name, form in formats.items() if not _is_known(model, name, stored_format(form))]
    if wrong:
        raise UsageError(f"torchao has no format for {', '.join(wrong[:5])}{' …' if len(wrong) > 5 else ''}: allow {_HAS}, or pin others")
    quantization = needed("torchao.quantization", "torchao", "a configuration of torchao")
    found: OrderedDict[str, Any] = OrderedDict()
    for name, form in formats.items():
        stored = stored_format(form)
        assert isinstance(stored, Granular)
        found[name.rpartition(".")[0]] = _of_layer(quantization, stored, name in dynamic)
    return quantization.FqnToConfig(fqn_to_config=found)


def _is_known(model: torch.nn.Module, name: str, form: Any) -> bool:
    path, _, own = name.rpartition(".")
    layer = model.get_submodule(path)
    if own != "weight" or not path or not isinstance(layer, torch.nn.Linear | torch.nn.Embedding) or not isinstance(form, Granular):
        return False
    if form.along is Along.GROUP and layer.weight.shape[-1] % form.size:
        return False
    if isinstance(form.element, Fixed):
        return form.along is not Along.TENSOR or (form.bits == 8 and not form.zero and isinstance(layer, torch.nn.Linear))
    return form.element.name == "fp8_e4m3fn" and form.along is Along.CHANNEL and isinstance(layer, torch.nn.Linear)


def _of_layer(quantization: Any, form: Granular, is_dynamic: bool) -> Any:
    granularity = needed("torchao.quantization.granularity", "torchao", "a configuration of torchao")
    if not isinstance(form.element, Fixed):
        return quantization.Float8WeightOnlyConfig(granularity=granularity.PerRow())
    if is_dynamic and form.bits == 8 and form.along is Along.CHANNEL and not form.zero:
        return quantization.Int8DynamicActivationInt8WeightConfig()
    if form.along is Along.TENSOR:
        return quantization.Int8WeightOnlyConfig(granularity=granularity.PerTensor())
    mapping = needed("torchao.quantization.quant_primitives", "torchao", "a configuration of torchao").MappingType
    return quantization.IntxWeightOnlyConfig(
        weight_dtype=getattr(torch, f"int{form.bits}"),
        granularity=granularity.PerGroup(form.size) if form.along is Along.GROUP else granularity.PerAxis(0),
        mapping_type=mapping.ASYMMETRIC if form.zero else mapping.SYMMETRIC,
    )
