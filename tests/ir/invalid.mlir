// RUN: hnfc-opt %s --split-input-file --verify-diagnostics | filecheck %s
// RUN: not hnfc-opt %s --split-input-file 2>&1 | filecheck %s --check-prefix=FIRST
// What the verifier rejects, one chunk each, with the line and the operation. Without --verify-diagnostics the first one is an error.

// FIRST: error: {{.*}}invalid.mlir:7:3: num.exp: expected operand 0 to have elements of floating-point type or complex type, but got si64
func.func @elementary(%x: tensor<2xsi64>) {
  %r = num.exp %x : tensor<2xsi64> -> tensor<2xsi64>
  func.return
}
// CHECK: {{.*}}invalid.mlir:7:3: num.exp: expected operand 0 to have elements of floating-point type or complex type, but got si64

// -----

func.func @trigonometry(%x: tensor<2xf32>) {
  %r = num.sin %x : tensor<2xf32> -> tensor<3xf32>
  func.return
}
// CHECK: invalid.mlir:15:3: num.sin: expected result type tensor<2xf32>, but got tensor<3xf32>

// -----

func.func @special(%x: tensor<2xi1>) {
  %r = num.erf %x : tensor<2xi1> -> tensor<2xi1>
  func.return
}
// CHECK: invalid.mlir:23:3: num.erf: expected operand 0 to have elements of floating-point type or complex type, but got i1

// -----

func.func @activation(%x: tensor<2xf32>) {
  %r = num.sigmoid %x : tensor<2xf32> -> tensor<2xf16>
  func.return
}
// CHECK: invalid.mlir:31:3: num.sigmoid: expected result type tensor<2xf32>, but got tensor<2xf16>

// -----

func.func @arithmetic(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>) {
  %r = num.add %x, %y : tensor<2x3xf32>, tensor<3x2xf32> -> tensor<2x3xf32>
  func.return
}
// CHECK: invalid.mlir:39:3: num.add: expected shapes that broadcast, but got [2, 3] and [3, 2]

// -----

func.func @one_element_type(%x: tensor<2xf32>, %y: tensor<2xf16>) {
  %r = num.mul %x, %y : tensor<2xf32>, tensor<2xf16> -> tensor<2xf32>
  func.return
}
// CHECK: invalid.mlir:47:3: num.mul: expected operands of one element type, but got f32 and f16

// -----

func.func @rounding(%x: tensor<2xf32>) {
  %r = num.round_to %x "f17" : tensor<2xf32> -> tensor<2xf32>
  func.return
}
// CHECK: invalid.mlir:55:3: num.round_to: expected a format, one of {{.*}}, but got f17

// -----

func.func @comparison(%x: tensor<2xf32>) {
  %r = num.compare "almost" %x, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xi1>
  func.return
}
// CHECK: invalid.mlir:63:3: num.compare: expected a predicate, one of {{.*}}, but got almost

// -----

func.func @condition(%c: tensor<2xf32>, %x: tensor<2xf32>) {
  %r = num.where %c, %x, %x : tensor<2xf32>, tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  func.return
}
// CHECK: invalid.mlir:71:3: num.where: expected operand 0 to have elements of truth type, but got f32

// -----

func.func @reduction(%x: tensor<2x3xf32>) {
  %r = num.sum %x [1] : tensor<2x3xf32> -> tensor<2xf32>
  func.return
}
// CHECK: invalid.mlir:79:3: num.sum: expected result type tensor<2x1xf32>, but got tensor<2xf32>

// -----

func.func @axes(%x: tensor<2x3xf32>) {
  %r = num.sum %x [1, 1] : tensor<2x3xf32> -> tensor<2x1xf32>
  func.return
}
// CHECK: invalid.mlir:87:3: num.sum: expected each axis once, but got [1, 1]

// -----

func.func @normalization(%x: tensor<2x3xf32>) {
  %r = num.softmax %x [2] : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}
// CHECK: invalid.mlir:95:3: num.softmax: expected axes below rank 2, but got 2

// -----

func.func @compensated(%x: tensor<2xf32>, %y: tensor<2xf64>) {
  %s, %t = num.two_sum %x, %y : tensor<2xf32>, tensor<2xf64> -> tensor<2xf32>, tensor<2xf32>
  func.return
}
// CHECK: invalid.mlir:103:3: num.two_sum: expected operands of one element type, but got f32 and f64

// -----

func.func @contraction(%x: tensor<2x3xf32>, %y: tensor<4x2xf32>) {
  %r = num.matmul %x, %y : tensor<2x3xf32>, tensor<4x2xf32> -> tensor<2x2xf32>
  func.return
}
// CHECK: invalid.mlir:111:3: num.matmul: expected inner sizes that agree, but got 3 and 4

// -----

func.func @movement(%x: tensor<2x3xf32>) {
  %r = num.reshape %x : tensor<2x3xf32> -> tensor<7xf32>
  func.return
}
// CHECK: invalid.mlir:119:3: num.reshape: expected 6 elements, but got the shape [7]

// -----

func.func @permutation(%x: tensor<2x3xf32>) {
  %r = num.transpose %x [0, 0] : tensor<2x3xf32> -> tensor<2x2xf32>
  func.return
}
// CHECK: invalid.mlir:127:3: num.transpose: expected a permutation of 2 axes, but got [0, 0]

// -----

func.func @constant() {
  %r = num.iota from 0.000000e+00 : f64 by 1.000000e+00 : f64 : tensor<2x2xf32>
  func.return
}
// CHECK: invalid.mlir:135:3: num.iota: expected a vector, but got tensor<2x2xf32>
