// RUN: hnfc-opt %s -p 'rewrite{group=fusion},erase-dead' | filecheck %s

func.func @softmax(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %e = num.exp %x : tensor<2x3xf32>
  %s = num.sum %e [1] : tensor<2x3xf32>
  %r = num.div %e, %s : tensor<2x3xf32>, tensor<2x1xf32>
  func.return %r : tensor<2x3xf32>
}
// CHECK-LABEL: func.func @softmax
// CHECK-NEXT: %[[R:.*]] = num.softmax %x [1] : tensor<2x3xf32>
// CHECK-NEXT: func.return %[[R]]

func.func @layer_norm(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %m = num.mean %x [1] : tensor<2x8xf32>
  %c = num.sub %x, %m : tensor<2x8xf32>, tensor<2x1xf32>
  %q = num.mul %c, %c : tensor<2x8xf32>
  %v = num.mean %q [1] : tensor<2x8xf32>
  %k = num.constant 0.5 : tensor<f32>
  %a = num.add %v, %k : tensor<2x1xf32>, tensor<f32>
  %i = num.rsqrt %a : tensor<2x1xf32>
  %r = num.mul %c, %i : tensor<2x8xf32>, tensor<2x1xf32>
  func.return %r : tensor<2x8xf32>
}
// CHECK-LABEL: func.func @layer_norm
// CHECK-NEXT: %[[R:.*]] = num.layer_norm %x [1] eps 5.000000e-01 : f64 : tensor<2x8xf32>
// CHECK-NEXT: func.return %[[R]]

func.func @attention(%q: tensor<2x4x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %m: tensor<4x5xf32>) -> tensor<2x4x8xf32> {
  %t = num.transpose %k [0, 2, 1] : tensor<2x5x8xf32>
  %p = num.matmul %q, %t : tensor<2x4x8xf32>, tensor<2x8x5xf32>
  %c = num.constant 0.25 : tensor<f32>
  %s = num.mul %p, %c : tensor<2x4x5xf32>, tensor<f32>
  %a = num.add %s, %m : tensor<2x4x5xf32>, tensor<4x5xf32>
  %w = num.softmax %a [2] : tensor<2x4x5xf32>
  %r = num.matmul %w, %v : tensor<2x4x5xf32>, tensor<2x5x8xf32>
  func.return %r : tensor<2x4x8xf32>
}
// CHECK-LABEL: func.func @attention
// CHECK: %[[A:.*]] = num.attention %q, %k, %v, %m scale 2.500000e-01 : f64 causal false
// CHECK: num.max %m [1]
// CHECK: %[[R:.*]] = num.add %[[A]]
// CHECK: func.return %[[R]]
