"""torchao takes the configuration, and makes the error that was measured."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from hnfc.core.errors import UsageError
from hnfc.deployment import optional
from tests.deployment.embedded import analyzed, off


@pytest.fixture(scope="module")
def quantize() -> Iterator[Any]:
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield pytest.importorskip("torchao.quantization").quantize_
    logging.disable(logging.NOTSET)


EMBEDDING_STAYS = {"embed.weight": "fp32"}


@pytest.mark.parametrize(("formats", "pins"), [
    (("int8",), {}), (("int4/group32",), {}), (("int4/group64/zero",), {}), (("int8/channel/zero", "fp32"), {}), (("int3/channel",), {}),
    (("fp8/channel",), EMBEDDING_STAYS), (("int8/tensor",), EMBEDDING_STAYS), (("int8", "int4", "fp32"), {}),
])  # fmt: skip
def test_the_error_is_that_of_the_run(quantize: Any, formats: tuple[str, ...], pins: dict[str, str]) -> None:
    found = analyzed(*formats, pins=pins)
    made = copy.deepcopy(found.model)
    config = found.to_torchao()
    quantize(made, config, filter_fn=None)
    error = off(found, made)
    assert error > 1e-4 and error == pytest.approx(float(found.measured), rel=0.2)
    packed = {name.rpartition(".")[0] for name, form in found.get_precision_assignment().items() if "/" in form}
    assert set(config.fqn_to_config) == packed
    kinds = {name: type(module.weight) for name, module in made.named_children()}
    assert {name for name, kind in kinds.items() if kind is not torch.nn.Parameter} == packed


def test_values_by_token_run_in_int8(quantize: Any) -> None:
    found = analyzed("int8", "int8/token", "fp32", pins={"norm.weight": "fp32", "norm.bias": "fp32", "norm*": "int8/token"})
    config = found.to_torchao()
    assert type(config.fqn_to_config["down"]).__name__ == "Int8DynamicActivationInt8WeightConfig"
    made = copy.deepcopy(found.model)
    quantize(made, config, filter_fn=None)
    assert 1e-4 < off(found, made) < 2 * float(found.measured)


def test_what_torchao_lacks_is_refused_with_a_way_out() -> None:
    with pytest.raises(UsageError, match=r"embed\.weight in fp8_e4m3fn/channel.*: allow .*or pin others"):
        analyzed("fp8/channel").to_torchao()
    with pytest.raises(UsageError, match=r"up\.weight in Q8_0"):
        analyzed("Q8_0").to_torchao()


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torchao")
    analyzed("int8").to_torchao()
    assert capfd.readouterr() == ("", "")


def test_a_missing_package_is_named() -> None:
    with pytest.raises(UsageError, match=r"a file needs the package nothing-of-this-name.*pip install nothing-of-this-name"):
        optional.needed("nothing_of_this_name", "nothing-of-this-name", "a file")
