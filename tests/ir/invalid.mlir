// RUN: not hnfc-opt %s 2>&1 | filecheck %s
// The result of a sum along axis 1 keeps that axis.

func.func @main(%x: tensor<2x3xf32>) -> tensor<2xf32> {
  %s = num.sum %x [1] : tensor<2x3xf32> -> tensor<2xf32>
  func.return %s : tensor<2xf32>
}
// CHECK: error:
// CHECK-SAME: invalid.mlir
// CHECK-SAME: num.sum: expected result type tensor<2x1xf32>, but got tensor<2xf32>
