// RUN: hnfc-opt %s -p 'rewrite{group=stability},cse-rewritten,erase-dead' | filecheck %s
// Two rewrites that make the same operation leave one; what the program itself computes twice stays.

func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %one = num.constant 1.0 : tensor<f32>
  %a = num.add %x, %one : tensor<4xf32>, tensor<f32>
  %p = num.log %a : tensor<4xf32>
  %q = num.log %a : tensor<4xf32>
  %s = num.sin %x : tensor<4xf32>
  %t = num.sin %x : tensor<4xf32>
  func.return %p, %q, %s, %t : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[P:.*]] = num.log1p %x
// CHECK-NEXT: %[[S:.*]] = num.sin %x
// CHECK-NEXT: %[[T:.*]] = num.sin %x
// CHECK-NEXT: func.return %[[P]], %[[P]], %[[S]], %[[T]]
