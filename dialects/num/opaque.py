"""Operations that hnfc does not know, carried through as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import DictionaryAttr, StringAttr
from xdsl.ir import Attribute
from xdsl.irdl import AnyAttr, irdl_op_definition, prop_def, var_operand_def, var_result_def

from hnfc.dialects.facts import Access, Exactness, Facts
from hnfc.dialects.interval import ANYTHING
from hnfc.dialects.num.base import NumOp, Tensor
from hnfc.dialects.types import ANY, TypeMismatch


@irdl_op_definition
class OpaqueOp(NumOp):
    """`operation` on the operands. `carried` holds its attributes, each as the text that MLIR prints.

    It is a wall that rules do not cross. Constants of the torch dialect that only such operations need (`!torch.int`,
    lists …) are opaque too.
    """

    name = "num.opaque"
    inputs = var_operand_def(AnyAttr())
    operation = prop_def(StringAttr)
    carried = prop_def(DictionaryAttr)
    outputs = var_result_def(AnyAttr())
    assembly_format = "$operation $carried `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)"
    FACTS: ClassVar = Facts(
        access=Access.WALL,
        exactness=Exactness.ALGORITHM,
        accepts=ANY,
        real=None,
        evaluate=None,
        range=lambda *_, **__: ANYTHING,
        torch=(),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        raise TypeMismatch("the results of an opaque operation do not follow from its operands")

    def verify_(self) -> None:
        """Any operands and any results."""

    def attributes_as_python(self) -> dict[str, Any]:
        return {"operation": self.operation.data, "carried": {k: _text(v) for k, v in self.carried.data.items()}}


def _text(attribute: Attribute) -> str:
    return attribute.data if isinstance(attribute, StringAttr) else str(attribute)
