// RUN: hnfc-opt %s -p 'import-torch' | filecheck %s
// RUN: xdsl-opt %s -f torch | filecheck %s
// The torch dialect becomes num: numbers become constants, dim and keepdim become axes and a reshape.

func.func @main(%x: !torch.vtensor<[2,3],f32>) -> !torch.vtensor<[2],f32> {
  %int1 = torch.constant.int 1
  %false = torch.constant.bool false
  %none = torch.constant.none
  %half = torch.constant.float 5.000000e-01
  %e = torch.aten.exp %x : !torch.vtensor<[2,3],f32> -> !torch.vtensor<[2,3],f32>
  %m = torch.aten.mul.Scalar %e, %half : !torch.vtensor<[2,3],f32>, !torch.float -> !torch.vtensor<[2,3],f32>
  %axes = torch.prim.ListConstruct %int1 : (!torch.int) -> !torch.list<int>
  %s = torch.aten.sum.dim_IntList %m, %axes, %false, %none : !torch.vtensor<[2,3],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[2],f32>
  return %s : !torch.vtensor<[2],f32>
}
// CHECK-LABEL: func.func @main(%{{.*}}: tensor<2x3xf32>) -> tensor<2xf32>
// CHECK-DAG: %[[E:.*]] = num.exp %{{.*}} : tensor<2x3xf32>
// CHECK-DAG: %[[H:.*]] = num.constant 0.5 : tensor<f32>
// CHECK: %[[M:.*]] = num.mul %[[E]], %[[H]] : tensor<2x3xf32>, tensor<f32>
// CHECK: %[[S:.*]] = num.sum %[[M]] [1] : tensor<2x3xf32>
// CHECK: %[[R:.*]] = num.reshape %[[S]] : tensor<2x1xf32> -> tensor<2xf32>
// CHECK: func.return %[[R]]
