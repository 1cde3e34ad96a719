"""The types of the torch dialect: tensors become builtin `tensor<…>`, everything else is carried by its text."""

from __future__ import annotations

import re

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition

from hnfc.dialects.types import DYNAMIC, ELEMENT_NAMES, ELEMENT_TYPES, tensor

_TENSOR = re.compile(r"!torch\.vtensor<\[([0-9?,\s]*)\],([\w<>]+)>")


@irdl_attr_definition
class TorchType(ParametrizedAttribute, TypeAttribute):
    """A type of the torch dialect that is no tensor of known rank and element type: `!num.torch<"!torch.int">`."""

    name = "num.torch"
    text: StringAttr


def from_torch(text: str) -> Attribute:
    """The builtin type of a torch type's text; `!num.torch<text>` where there is none."""
    found = _TENSOR.fullmatch(text)
    if found is None or found[2] not in ELEMENT_TYPES:
        return TorchType(StringAttr(text))
    sizes = [DYNAMIC if size.strip() == "?" else int(size) for size in found[1].split(",")] if found[1] else []
    return tensor(found[2], sizes)


def to_torch(kind: Attribute) -> str:
    """The text of the torch type behind a type of the `num` dialect."""
    if isinstance(kind, TorchType):
        return kind.text.data
    if isinstance(kind, TensorType):
        sizes = ",".join("?" if size == DYNAMIC else str(size) for size in kind.get_shape())
        return f"!torch.vtensor<[{sizes}],{ELEMENT_NAMES[kind.element_type]}>"
    return str(kind)
