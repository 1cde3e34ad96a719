// RUN: hnfc-opt %s | filecheck %s
// RUN: hnfc-opt %s | hnfc-opt - | filecheck %s

func.func @main(%a0x: tensor<3x5xf32>, %a0y: tensor<3x5xf32>, %a1x: tensor<3x5xf32>, %a2x: tensor<3x5xf32>, %a3x: tensor<3x5xf32>, %a3y: tensor<3x5xf32>, %a4x: tensor<3x5xi1>, %a4y: tensor<3x5xf32>, %a4z: tensor<5xf32>, %a5x: tensor<3x5xf32>, %a6x: tensor<3x5xf32>, %a8x: tensor<3x5xf32>, %a9x: tensor<3x5xf32>, %a10x: tensor<3x5xf32>, %a11x: tensor<3x5xf32>, %a12x: tensor<3x5xf32>, %a13x: tensor<3x5xf32>, %a14x: tensor<3x8xf32>, %a15x: tensor<2x3x4x8xf32>, %a15y: tensor<2x3x5x8xf32>, %a15z: tensor<2x3x5x8xf32>, %a16x: tensor<3x5xf32>, %a16y: tensor<5x4xf32>, %a17x: tensor<2x4x6x6xf32>, %a17y: tensor<6x2x3x3xf32>, %a18x: tensor<2x4x6x6xf32>, %a19x: tensor<4x3xf32>, %a19y: tensor<2x5xsi64>, %a20x: tensor<2x3x4xf32>, %a21x: tensor<3x5xf32>, %a22x: tensor<3x1xf32>, %a23x: tensor<3x5xf32>, %a24x: tensor<3x5xf32>, %a24y: tensor<3x2xf32>, %a25x: tensor<3x5xf32>, %a27x: tensor<3x5xf32>, %a27y: tensor<5xf32>, %a28x: tensor<3x5xf32>, %a28y: tensor<5xf32>, %a28z: tensor<f32>, %a29x: tensor<3x5xf32>, %a30x: tensor<3x5xf32>, %a31x: tensor<3x5xf32>) {
// CHECK: func.func @main
// CHECK-NEXT: %r0 = num.add %a0x, %a0y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
  %r0 = num.add %a0x, %a0y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %r1 = num.exp %a1x : tensor<3x5xf32> -> tensor<3x5xf32>
  %r1 = num.exp %a1x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %r2 = num.erfc %a2x : tensor<3x5xf32> -> tensor<3x5xf32>
  %r2 = num.erfc %a2x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %r3 = num.compare "eq" %a3x, %a3y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xi1>
  %r3 = num.compare "eq" %a3x, %a3y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xi1>
// CHECK-NEXT: %r4 = num.where %a4x, %a4y, %a4z : tensor<3x5xi1>, tensor<3x5xf32>, tensor<5xf32> -> tensor<3x5xf32>
  %r4 = num.where %a4x, %a4y, %a4z : tensor<3x5xi1>, tensor<3x5xf32>, tensor<5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %r5 = num.cast %a5x : tensor<3x5xf32> -> tensor<3x5xf16>
  %r5 = num.cast %a5x : tensor<3x5xf32> -> tensor<3x5xf16>
// CHECK-NEXT: %r6 = num.round_to %a6x "f16" : tensor<3x5xf32> -> tensor<3x5xf32>
  %r6 = num.round_to %a6x "f16" : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %r7 = num.constant 0.25 : tensor<2x3xf32>
  %r7 = num.constant 0.25 : tensor<2x3xf32>
// CHECK-NEXT: %r8 = num.sum %a8x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
  %r8 = num.sum %a8x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
// CHECK-NEXT: %r9 = num.mean %a9x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
  %r9 = num.mean %a9x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
// CHECK-NEXT: %r10 = num.var %a10x [1] correction 0.000000e+00 : f64 : tensor<3x5xf32> -> tensor<3x1xf32>
  %r10 = num.var %a10x [1] correction 0.000000e+00 : f64 : tensor<3x5xf32> -> tensor<3x1xf32>
// CHECK-NEXT: %r11 = num.argmax %a11x [1] : tensor<3x5xf32> -> tensor<3x1xsi64>
  %r11 = num.argmax %a11x [1] : tensor<3x5xf32> -> tensor<3x1xsi64>
// CHECK-NEXT: %r12 = num.cumsum %a12x 1 : i64 : tensor<3x5xf32> -> tensor<3x5xf32>
  %r12 = num.cumsum %a12x 1 : i64 : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %r13 = num.softmax %a13x [1] : tensor<3x5xf32> -> tensor<3x5xf32>
  %r13 = num.softmax %a13x [1] : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %r14 = num.layer_norm %a14x [1] eps 1.000000e-05 : f64 : tensor<3x8xf32> -> tensor<3x8xf32>
  %r14 = num.layer_norm %a14x [1] eps 1.000000e-05 : f64 : tensor<3x8xf32> -> tensor<3x8xf32>
// CHECK-NEXT: %r15 = num.attention %a15x, %a15y, %a15z scale 5.000000e-01 : f64 causal false : tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32> -> tensor<2x3x4x8xf32>
  %r15 = num.attention %a15x, %a15y, %a15z scale 5.000000e-01 : f64 causal false : tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32> -> tensor<2x3x4x8xf32>
// CHECK-NEXT: %r16 = num.matmul %a16x, %a16y : tensor<3x5xf32>, tensor<5x4xf32> -> tensor<3x4xf32>
  %r16 = num.matmul %a16x, %a16y : tensor<3x5xf32>, tensor<5x4xf32> -> tensor<3x4xf32>
// CHECK-NEXT: %r17 = num.conv %a17x, %a17y stride [1, 1] padding [1, 1] dilation [1, 1] groups 2 : i64 : tensor<2x4x6x6xf32>, tensor<6x2x3x3xf32> -> tensor<2x6x6x6xf32>
  %r17 = num.conv %a17x, %a17y stride [1, 1] padding [1, 1] dilation [1, 1] groups 2 : i64 : tensor<2x4x6x6xf32>, tensor<6x2x3x3xf32> -> tensor<2x6x6x6xf32>
// CHECK-NEXT: %r18 = num.max_pool %a18x kernel [3, 3] stride [2, 2] padding [1, 1] dilation [1, 1] ceil false : tensor<2x4x6x6xf32> -> tensor<2x4x3x3xf32>
  %r18 = num.max_pool %a18x kernel [3, 3] stride [2, 2] padding [1, 1] dilation [1, 1] ceil false : tensor<2x4x6x6xf32> -> tensor<2x4x3x3xf32>
// CHECK-NEXT: %r19 = num.embedding %a19x, %a19y : tensor<4x3xf32>, tensor<2x5xsi64> -> tensor<2x5x3xf32>
  %r19 = num.embedding %a19x, %a19y : tensor<4x3xf32>, tensor<2x5xsi64> -> tensor<2x5x3xf32>
// CHECK-NEXT: %r20 = num.transpose %a20x [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  %r20 = num.transpose %a20x [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
// CHECK-NEXT: %r21 = num.reshape %a21x : tensor<3x5xf32> -> tensor<5x3xf32>
  %r21 = num.reshape %a21x : tensor<3x5xf32> -> tensor<5x3xf32>
// CHECK-NEXT: %r22 = num.broadcast %a22x : tensor<3x1xf32> -> tensor<2x3x5xf32>
  %r22 = num.broadcast %a22x : tensor<3x1xf32> -> tensor<2x3x5xf32>
// CHECK-NEXT: %r23 = num.slice %a23x axis 1 : i64 from 1 : i64 to -1 : i64 by 2 : i64 : tensor<3x5xf32> -> tensor<3x2xf32>
  %r23 = num.slice %a23x axis 1 : i64 from 1 : i64 to -1 : i64 by 2 : i64 : tensor<3x5xf32> -> tensor<3x2xf32>
// CHECK-NEXT: %r24 = num.concat %a24x, %a24y 1 : i64 : tensor<3x5xf32>, tensor<3x2xf32> -> tensor<3x7xf32>
  %r24 = num.concat %a24x, %a24y 1 : i64 : tensor<3x5xf32>, tensor<3x2xf32> -> tensor<3x7xf32>
// CHECK-NEXT: %r25 = num.pad %a25x low [0, 1] high [1, 2] value 1.500000e+00 : f64 : tensor<3x5xf32> -> tensor<4x8xf32>
  %r25 = num.pad %a25x low [0, 1] high [1, 2] value 1.500000e+00 : f64 : tensor<3x5xf32> -> tensor<4x8xf32>
// CHECK-NEXT: %r26 = num.iota from 1.000000e+00 : f64 by 2.000000e+00 : f64 : tensor<4xsi64>
  %r26 = num.iota from 1.000000e+00 : f64 by 2.000000e+00 : f64 : tensor<4xsi64>
// CHECK-NEXT: %r27x, %r27y = num.two_sum %a27x, %a27y : tensor<3x5xf32>, tensor<5xf32> -> tensor<3x5xf32>, tensor<3x5xf32>
  %r27x, %r27y = num.two_sum %a27x, %a27y : tensor<3x5xf32>, tensor<5xf32> -> tensor<3x5xf32>, tensor<3x5xf32>
// CHECK-NEXT: %r28 = num.fma %a28x, %a28y, %a28z : tensor<3x5xf32>, tensor<5xf32>, tensor<f32> -> tensor<3x5xf32>
  %r28 = num.fma %a28x, %a28y, %a28z : tensor<3x5xf32>, tensor<5xf32>, tensor<f32> -> tensor<3x5xf32>
// CHECK-NEXT: %r29 = num.pairwise_sum %a29x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
  %r29 = num.pairwise_sum %a29x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
// CHECK-NEXT: %r30 = num.sigmoid %a30x : tensor<3x5xf32> -> tensor<3x5xf32>
  %r30 = num.sigmoid %a30x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %r31 = num.gelu %a31x "none" : tensor<3x5xf32> -> tensor<3x5xf32>
  %r31 = num.gelu %a31x "none" : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %w = num.weight @layer.0.weight : tensor<2x3xf32>
  %w = num.weight @"layer.0.weight" : tensor<2x3xf32>
// CHECK-NEXT: %o = num.opaque "torch.aten.foo" {k = "1 : i64"}(%w) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %o = num.opaque "torch.aten.foo" {k = "1 : i64"}(%w) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}
