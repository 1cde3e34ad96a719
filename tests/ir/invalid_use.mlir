// RUN: not hnfc-opt %s 2>&1 | filecheck %s
// A value has one type.

func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %e = num.exp %x : tensor<2x3xf32>
  func.return %e : tensor<3x2xf32>
}
// CHECK: error: {{.*}}invalid_use.mlir:6:15
// CHECK: operand is used with type tensor<3x2xf32>, but has been previously used or defined with type tensor<2x3xf32>
