// RUN: hnfc-opt %s -p 'export-torch' | filecheck %s
// Numbers become operands, half precision is summed in float32.

func.func @main(%x: tensor<2x3xf32>, %h: tensor<2x3xf16>) -> (tensor<2x3xf32>, tensor<2x1xf16>) {
  %c = num.constant 0.1 : tensor<f32>
  %y = num.mul %x, %c : tensor<2x3xf32>, tensor<f32>
  %r = num.log1p %y : tensor<2x3xf32>
  %m = num.mean %h [1] : tensor<2x3xf16>
  func.return %r, %m : tensor<2x3xf32>, tensor<2x1xf16>
}
// CHECK: func.func @main(%[[X:.*]]: !torch.vtensor<[2,3],f32>, %[[H:.*]]: !torch.vtensor<[2,3],f16>)
// CHECK: %[[Y:.*]] = torch.aten.mul.Scalar %[[X]], %{{.*}} : !torch.vtensor<[2,3],f32>, !torch.float -> !torch.vtensor<[2,3],f32>
// CHECK: torch.aten.log1p %[[Y]]
// CHECK: torch.aten.mean.dim %[[H]], {{.*}} -> !torch.vtensor<[2,1],f32>
// CHECK: torch.aten.to.dtype {{.*}} -> !torch.vtensor<[2,1],f16>
