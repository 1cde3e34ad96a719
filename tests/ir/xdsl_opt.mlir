// RUN: xdsl-opt %s -p 'rewrite{group=stability},erase-dead' | filecheck %s
// RUN: xdsl-opt %s -t torch | filecheck %s --check-prefix=TORCH
// xDSL's own tool finds the dialect, the passes and the target by their entry point.

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = num.constant 1.0 : tensor<f32>
  %a = num.add %x, %one : tensor<4xf32>, tensor<f32>
  %r = num.log %a : tensor<4xf32>
  func.return %r : tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[R:.*]] = num.log1p %x
// CHECK-NEXT: func.return %[[R]]
// TORCH: %[[A:.*]] = torch.aten.add.Scalar
// TORCH: torch.aten.log %[[A]]
