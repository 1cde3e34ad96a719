"""Writes log_odds.onnx: the logarithm of a probability's odds, which is infinite once the sigmoid rounds to 0 or 1.

    python examples/export_log_odds.py examples/log_odds.onnx

Needs onnx; hnfc needs it too, and torch to write what it made (`pip install '.[torch,onnx]'`).
"""

from __future__ import annotations

import sys

import onnx
from onnx import TensorProto, helper

NODES = [
    helper.make_node("Sigmoid", ["x"], ["p"]),
    helper.make_node("Sub", ["one", "p"], ["q"]),
    helper.make_node("Log", ["p"], ["log_p"]),
    helper.make_node("Log", ["q"], ["log_q"]),
    helper.make_node("Sub", ["log_p", "log_q"], ["y"]),
]


def model() -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [6]) for name in "xy")
    graph = helper.make_graph(NODES, "log_odds", [x], [y], [helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


if __name__ == "__main__":
    onnx.save(model(), sys.argv[1])
