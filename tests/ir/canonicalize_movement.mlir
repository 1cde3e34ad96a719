// RUN: hnfc-opt %s -p 'canonicalize-movement' | filecheck %s
// A sum that drops its axis, used through an added axis: the reshapes meet and go.

func.func @softmax(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %e = num.exp %x : tensor<2x3xf32>
  %s = num.sum %e [1] : tensor<2x3xf32>
  %d = num.reshape %s : tensor<2x1xf32> -> tensor<2xf32>
  %l = num.log %d : tensor<2xf32>
  %k = num.reshape %l : tensor<2xf32> -> tensor<2x1xf32>
  %r = num.sub %x, %k : tensor<2x3xf32>, tensor<2x1xf32>
  func.return %r : tensor<2x3xf32>
}
// CHECK-LABEL: func.func @softmax
// CHECK-NOT: num.reshape
// CHECK: %[[S:.*]] = num.sum
// CHECK-NEXT: %[[L:.*]] = num.log %[[S]] : tensor<2x1xf32>
// CHECK-NEXT: num.sub %x, %[[L]] : tensor<2x3xf32>, tensor<2x1xf32>

func.func @leading_axes(%x: tensor<2x3xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32> {
  %k = num.reshape %b : tensor<3xf32> -> tensor<1x3xf32>
  %r = num.add %x, %k : tensor<2x3xf32>, tensor<1x3xf32>
  func.return %r : tensor<2x3xf32>
}
// CHECK-LABEL: func.func @leading_axes
// CHECK-NEXT: num.add %x, %b : tensor<2x3xf32>, tensor<3xf32>

func.func @transposed_vector(%x: tensor<2x1xf32>) -> tensor<1x2xf32> {
  %r = num.reshape %x : tensor<2x1xf32> -> tensor<1x2xf32>
  func.return %r : tensor<1x2xf32>
}
// CHECK-LABEL: func.func @transposed_vector
// CHECK-NEXT: num.transpose %x [1, 0] : tensor<2x1xf32>
