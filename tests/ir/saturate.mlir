// RUN: hnfc-opt %s -p 'saturate{cost=flops},erase-dead' | filecheck %s

// (a·b)·v takes a thousand times what a·(b·v) does
func.func @chain(%a: tensor<40x30xf32>, %b: tensor<30x50xf32>, %v: tensor<50x1xf32>) -> tensor<40x1xf32> {
  %ab = num.matmul %a, %b : tensor<40x30xf32>, tensor<30x50xf32>
  %r = num.matmul %ab, %v : tensor<40x50xf32>, tensor<50x1xf32>
  func.return %r : tensor<40x1xf32>
}
// CHECK-LABEL: func.func @chain
// CHECK-NEXT: %[[BV:.*]] = num.matmul %b, %v
// CHECK-NEXT: %[[R:.*]] = num.matmul %a, %[[BV]]
// CHECK-NEXT: func.return %[[R]]

// what costs least as it is stays as it is
func.func @kept(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = num.exp %x : tensor<4xf32>
  func.return %e : tensor<4xf32>
}
// CHECK-LABEL: func.func @kept
// CHECK-NEXT: %[[E:.*]] = num.exp %x
// CHECK-NEXT: func.return %[[E]]
