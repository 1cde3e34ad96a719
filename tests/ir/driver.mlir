// RUN: hnfc-opt %s --split-input-file --print-between-passes -p 'erase-dead,cse' | filecheck %s
// Each chunk is a module of its own; our passes and those of xDSL run in one pipeline.

func.func @first(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %a = num.exp %x : tensor<2xf32>
  %b = num.exp %x : tensor<2xf32>
  %c = num.log %x : tensor<2xf32>
  func.return %a, %b : tensor<2xf32>, tensor<2xf32>
}
// CHECK: IR after erase-dead:
// CHECK: func.func @first
// CHECK-NEXT: num.exp
// CHECK-NEXT: num.exp
// CHECK-NEXT: func.return
// CHECK: func.func @first
// CHECK-NEXT: %[[A:.*]] = num.exp
// CHECK-NEXT: func.return %[[A]], %[[A]]

// -----

func.func @second() {
  func.return
}
// CHECK: //{{ -----}}
// CHECK: func.func @second
