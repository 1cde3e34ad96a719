// RUN: hnfc-opt %s -p 'erase-dead' | filecheck %s
// An operation that nothing uses goes, and what only it used; what hnfc does not know stays.

func.func @dead(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = num.exp %x : tensor<2xf32>
  %b = num.log %a : tensor<2xf32>
  %o = num.opaque "torch.aten.foo" {}(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %r = num.neg %x : tensor<2xf32>
  func.return %r : tensor<2xf32>
}
// CHECK-LABEL: func.func @dead
// CHECK-NEXT: num.opaque "torch.aten.foo"
// CHECK-NEXT: %[[R:.*]] = num.neg %x
// CHECK-NEXT: func.return %[[R]]
