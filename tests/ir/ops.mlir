// RUN: hnfc-opt %s | hnfc-opt - | filecheck %s
// RUN: hnfc-opt %s --print-op-generic | hnfc-opt - | filecheck %s
// Every form of every family: the custom and the generic form parse to the same module. Each operation is in tests/backend/test_round_trip.py.

func.func @elementary(%neg_x: tensor<3x5xf32>) {
// CHECK-LABEL: func.func @elementary
// CHECK-NEXT: %neg_r = num.neg %neg_x : tensor<3x5xf32>
  %neg_r = num.neg %neg_x : tensor<3x5xf32>
  func.return
}

func.func @trigonometry(%sin_x: tensor<3x5xf32>) {
// CHECK-LABEL: func.func @trigonometry
// CHECK-NEXT: %sin_r = num.sin %sin_x : tensor<3x5xf32>
  %sin_r = num.sin %sin_x : tensor<3x5xf32>
  func.return
}

func.func @special(%erf_x: tensor<3x5xf32>) {
// CHECK-LABEL: func.func @special
// CHECK-NEXT: %erf_r = num.erf %erf_x : tensor<3x5xf32>
  %erf_r = num.erf %erf_x : tensor<3x5xf32>
  func.return
}

func.func @activation(%sigmoid_x: tensor<3x5xf32>, %gelu_x: tensor<3x5xf32>) {
// CHECK-LABEL: func.func @activation
// CHECK-NEXT: %sigmoid_r = num.sigmoid %sigmoid_x : tensor<3x5xf32>
  %sigmoid_r = num.sigmoid %sigmoid_x : tensor<3x5xf32>
// CHECK-NEXT: %gelu_r = num.gelu %gelu_x "none" : tensor<3x5xf32>
  %gelu_r = num.gelu %gelu_x "none" : tensor<3x5xf32>
  func.return
}

func.func @arithmetic(%add_x: tensor<3x5xf32>, %add_y: tensor<3x5xf32>, %fma_x: tensor<3x5xf32>, %fma_y: tensor<5xf32>, %fma_z: tensor<f32>) {
// CHECK-LABEL: func.func @arithmetic
// CHECK-NEXT: %add_r = num.add %add_x, %add_y : tensor<3x5xf32>
  %add_r = num.add %add_x, %add_y : tensor<3x5xf32>
// CHECK-NEXT: %fma_r = num.fma %fma_x, %fma_y, %fma_z : tensor<3x5xf32>, tensor<5xf32>, tensor<f32>
  %fma_r = num.fma %fma_x, %fma_y, %fma_z : tensor<3x5xf32>, tensor<5xf32>, tensor<f32>
  func.return
}

func.func @binary_functions(%x: tensor<3x5xf32>, %y: tensor<5xf32>) {
// CHECK-LABEL: func.func @binary_functions
// CHECK-NEXT: %r = num.pow %x, %y : tensor<3x5xf32>, tensor<5xf32>
  %r = num.pow %x, %y : tensor<3x5xf32>, tensor<5xf32>
  func.return
}

func.func @rounding(%floor_x: tensor<3x5xf32>, %round_to_x: tensor<3x5xf32>, %cast_x: tensor<3x5xf32>) {
// CHECK-LABEL: func.func @rounding
// CHECK-NEXT: %floor_r = num.floor %floor_x : tensor<3x5xf32>
  %floor_r = num.floor %floor_x : tensor<3x5xf32>
// CHECK-NEXT: %round_to_r = num.round_to %round_to_x "f16" : tensor<3x5xf32>
  %round_to_r = num.round_to %round_to_x "f16" : tensor<3x5xf32>
// CHECK-NEXT: %cast_r = num.cast %cast_x : tensor<3x5xf32> -> tensor<3x5xf16>
  %cast_r = num.cast %cast_x : tensor<3x5xf32> -> tensor<3x5xf16>
  func.return
}

func.func @comparison(%compare_x: tensor<3x5xf32>, %compare_y: tensor<3x5xf32>, %where_x: tensor<3x5xi1>, %where_y: tensor<3x5xf32>, %where_z: tensor<5xf32>, %isnan_x: tensor<3x5xf32>, %logical_and_x: tensor<3x5xi1>, %logical_and_y: tensor<5xi1>) {
// CHECK-LABEL: func.func @comparison
// CHECK-NEXT: %compare_r = num.compare "eq" %compare_x, %compare_y : tensor<3x5xf32>
  %compare_r = num.compare "eq" %compare_x, %compare_y : tensor<3x5xf32>
// CHECK-NEXT: %where_r = num.where %where_x, %where_y, %where_z : tensor<3x5xi1>, tensor<3x5xf32>, tensor<5xf32>
  %where_r = num.where %where_x, %where_y, %where_z : tensor<3x5xi1>, tensor<3x5xf32>, tensor<5xf32>
// CHECK-NEXT: %isnan_r = num.isnan %isnan_x : tensor<3x5xf32>
  %isnan_r = num.isnan %isnan_x : tensor<3x5xf32>
// CHECK-NEXT: %logical_and_r = num.logical_and %logical_and_x, %logical_and_y : tensor<3x5xi1>, tensor<5xi1>
  %logical_and_r = num.logical_and %logical_and_x, %logical_and_y : tensor<3x5xi1>, tensor<5xi1>
  func.return
}

func.func @reduction(%sum_x: tensor<3x5xf32>, %prod_x: tensor<3x5xf32>, %var_x: tensor<3x5xf32>, %cumsum_x: tensor<3x5xf32>) {
// CHECK-LABEL: func.func @reduction
// CHECK-NEXT: %sum_r = num.sum %sum_x [1] : tensor<3x5xf32>
  %sum_r = num.sum %sum_x [1] : tensor<3x5xf32>
// CHECK-NEXT: %prod_r = num.prod %prod_x [1] : tensor<3x5xf32>
  %prod_r = num.prod %prod_x [1] : tensor<3x5xf32>
// CHECK-NEXT: %var_r = num.var %var_x [1] correction 0.000000e+00 : f64 : tensor<3x5xf32>
  %var_r = num.var %var_x [1] correction 0.000000e+00 : f64 : tensor<3x5xf32>
// CHECK-NEXT: %cumsum_r = num.cumsum %cumsum_x 1 : i64 : tensor<3x5xf32>
  %cumsum_r = num.cumsum %cumsum_x 1 : i64 : tensor<3x5xf32>
  func.return
}

func.func @extremes(%x: tensor<3x5xf32>) {
// CHECK-LABEL: func.func @extremes
// CHECK-NEXT: %r = num.argmax %x [1] : tensor<3x5xf32>
  %r = num.argmax %x [1] : tensor<3x5xf32>
  func.return
}

func.func @normalization(%softmax_x: tensor<3x5xf32>, %normalize_x: tensor<3x5xf32>, %layer_norm_x: tensor<3x8xf32>, %rms_norm_x: tensor<3x8xf32>, %rms_norm_y: tensor<8xf32>, %batch_norm_x: tensor<2x4x6x6xf32>, %batch_norm_y: tensor<1x4x1x1xf32>, %batch_norm_z: tensor<1x4x1x1xf32>, %batch_norm_u: tensor<1x4x1x1xf32>, %batch_norm_v: tensor<1x4x1x1xf32>, %group_norm_x: tensor<2x4x6x6xf32>, %group_norm_y: tensor<4xf32>, %group_norm_z: tensor<4xf32>, %attention_x: tensor<2x3x4x8xf32>, %attention_y: tensor<2x3x5x8xf32>, %attention_z: tensor<2x3x5x8xf32>) {
// CHECK-LABEL: func.func @normalization
// CHECK-NEXT: %softmax_r = num.softmax %softmax_x [1] : tensor<3x5xf32>
  %softmax_r = num.softmax %softmax_x [1] : tensor<3x5xf32>
// CHECK-NEXT: %normalize_r = num.normalize %normalize_x [1] eps 1.000000e-12 : f64 : tensor<3x5xf32>
  %normalize_r = num.normalize %normalize_x [1] eps 1.000000e-12 : f64 : tensor<3x5xf32>
// CHECK-NEXT: %layer_norm_r = num.layer_norm %layer_norm_x [1] eps 1.000000e-05 : f64 : tensor<3x8xf32>
  %layer_norm_r = num.layer_norm %layer_norm_x [1] eps 1.000000e-05 : f64 : tensor<3x8xf32>
// CHECK-NEXT: %rms_norm_r = num.rms_norm %rms_norm_x, %rms_norm_y [1] eps 1.000000e-05 : f64 : tensor<3x8xf32>, tensor<8xf32>
  %rms_norm_r = num.rms_norm %rms_norm_x, %rms_norm_y [1] eps 1.000000e-05 : f64 : tensor<3x8xf32>, tensor<8xf32>
// CHECK-NEXT: %batch_norm_r = num.batch_norm %batch_norm_x, %batch_norm_y, %batch_norm_z, %batch_norm_u, %batch_norm_v eps 1.000000e-05 : f64 : tensor<2x4x6x6xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>
  %batch_norm_r = num.batch_norm %batch_norm_x, %batch_norm_y, %batch_norm_z, %batch_norm_u, %batch_norm_v eps 1.000000e-05 : f64 : tensor<2x4x6x6xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>
// CHECK-NEXT: %group_norm_r = num.group_norm %group_norm_x, %group_norm_y, %group_norm_z groups 2 : i64 eps 1.000000e-05 : f64 : tensor<2x4x6x6xf32>, tensor<4xf32>, tensor<4xf32>
  %group_norm_r = num.group_norm %group_norm_x, %group_norm_y, %group_norm_z groups 2 : i64 eps 1.000000e-05 : f64 : tensor<2x4x6x6xf32>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: %attention_r = num.attention %attention_x, %attention_y, %attention_z scale 5.000000e-01 : f64 causal false : tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>
  %attention_r = num.attention %attention_x, %attention_y, %attention_z scale 5.000000e-01 : f64 causal false : tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>
  func.return
}

func.func @compensated(%kahan_sum_x: tensor<3x5xf32>, %two_sum_x: tensor<3x5xf32>, %two_sum_y: tensor<5xf32>) {
// CHECK-LABEL: func.func @compensated
// CHECK-NEXT: %kahan_sum_r = num.kahan_sum %kahan_sum_x [1] : tensor<3x5xf32>
  %kahan_sum_r = num.kahan_sum %kahan_sum_x [1] : tensor<3x5xf32>
// CHECK-NEXT: %two_sum_s, %two_sum_t = num.two_sum %two_sum_x, %two_sum_y : tensor<3x5xf32>, tensor<5xf32>
  %two_sum_s, %two_sum_t = num.two_sum %two_sum_x, %two_sum_y : tensor<3x5xf32>, tensor<5xf32>
  func.return
}

func.func @contraction(%matmul_x: tensor<3x5xf32>, %matmul_y: tensor<5x4xf32>, %affine_x: tensor<3x4xf32>, %affine_y: tensor<4x5xf32>, %affine_z: tensor<5xf32>, %conv_x: tensor<2x4x6x6xf32>, %conv_y: tensor<6x2x3x3xf32>, %max_pool_x: tensor<2x4x6x6xf32>, %avg_pool_x: tensor<2x4x6x6xf32>, %embedding_x: tensor<4x3xf32>, %embedding_y: tensor<2x5xsi64>, %gather_x: tensor<4x3xf32>, %gather_y: tensor<4x2xsi64>) {
// CHECK-LABEL: func.func @contraction
// CHECK-NEXT: %matmul_r = num.matmul %matmul_x, %matmul_y : tensor<3x5xf32>, tensor<5x4xf32>
  %matmul_r = num.matmul %matmul_x, %matmul_y : tensor<3x5xf32>, tensor<5x4xf32>
// CHECK-NEXT: %affine_r = num.affine %affine_x, %affine_y, %affine_z : tensor<3x4xf32>, tensor<4x5xf32>, tensor<5xf32>
  %affine_r = num.affine %affine_x, %affine_y, %affine_z : tensor<3x4xf32>, tensor<4x5xf32>, tensor<5xf32>
// CHECK-NEXT: %conv_r = num.conv %conv_x, %conv_y stride [1, 1] padding [1, 1] dilation [1, 1] groups 2 : i64 : tensor<2x4x6x6xf32>, tensor<6x2x3x3xf32>
  %conv_r = num.conv %conv_x, %conv_y stride [1, 1] padding [1, 1] dilation [1, 1] groups 2 : i64 : tensor<2x4x6x6xf32>, tensor<6x2x3x3xf32>
// CHECK-NEXT: %max_pool_r = num.max_pool %max_pool_x kernel [3, 3] stride [2, 2] padding [1, 1] dilation [1, 1] ceil false : tensor<2x4x6x6xf32>
  %max_pool_r = num.max_pool %max_pool_x kernel [3, 3] stride [2, 2] padding [1, 1] dilation [1, 1] ceil false : tensor<2x4x6x6xf32>
// CHECK-NEXT: %avg_pool_r = num.avg_pool %avg_pool_x kernel [3, 3] stride [2, 2] padding [1, 1] ceil false count_padding true : tensor<2x4x6x6xf32>
  %avg_pool_r = num.avg_pool %avg_pool_x kernel [3, 3] stride [2, 2] padding [1, 1] ceil false count_padding true : tensor<2x4x6x6xf32>
// CHECK-NEXT: %embedding_r = num.embedding %embedding_x, %embedding_y : tensor<4x3xf32>, tensor<2x5xsi64>
  %embedding_r = num.embedding %embedding_x, %embedding_y : tensor<4x3xf32>, tensor<2x5xsi64>
// CHECK-NEXT: %gather_r = num.gather %gather_x, %gather_y 1 : i64 : tensor<4x3xf32>, tensor<4x2xsi64>
  %gather_r = num.gather %gather_x, %gather_y 1 : i64 : tensor<4x3xf32>, tensor<4x2xsi64>
  func.return
}

func.func @movement(%transpose_x: tensor<2x3x4xf32>, %reshape_x: tensor<3x5xf32>, %slice_x: tensor<3x5xf32>, %concat_x: tensor<3x5xf32>, %concat_y: tensor<3x2xf32>, %pad_x: tensor<3x5xf32>, %reverse_x: tensor<3x5xf32>) {
// CHECK-LABEL: func.func @movement
// CHECK-NEXT: %transpose_r = num.transpose %transpose_x [2, 0, 1] : tensor<2x3x4xf32>
  %transpose_r = num.transpose %transpose_x [2, 0, 1] : tensor<2x3x4xf32>
// CHECK-NEXT: %reshape_r = num.reshape %reshape_x : tensor<3x5xf32> -> tensor<5x3xf32>
  %reshape_r = num.reshape %reshape_x : tensor<3x5xf32> -> tensor<5x3xf32>
// CHECK-NEXT: %slice_r = num.slice %slice_x axis 1 : i64 from 1 : i64 to -1 : i64 by 2 : i64 : tensor<3x5xf32>
  %slice_r = num.slice %slice_x axis 1 : i64 from 1 : i64 to -1 : i64 by 2 : i64 : tensor<3x5xf32>
// CHECK-NEXT: %concat_r = num.concat %concat_x, %concat_y 1 : i64 : tensor<3x5xf32>, tensor<3x2xf32>
  %concat_r = num.concat %concat_x, %concat_y 1 : i64 : tensor<3x5xf32>, tensor<3x2xf32>
// CHECK-NEXT: %pad_r = num.pad %pad_x low [0, 1] high [1, 2] value 1.500000e+00 : f64 : tensor<3x5xf32>
  %pad_r = num.pad %pad_x low [0, 1] high [1, 2] value 1.500000e+00 : f64 : tensor<3x5xf32>
// CHECK-NEXT: %reverse_r = num.reverse %reverse_x [0, 1] : tensor<3x5xf32>
  %reverse_r = num.reverse %reverse_x [0, 1] : tensor<3x5xf32>
  func.return
}

func.func @constant() {
// CHECK-LABEL: func.func @constant
// CHECK-NEXT: %constant_r = num.constant 0.25 : tensor<2x3xf64>
  %constant_r = num.constant 0.25 : tensor<2x3xf64>
// CHECK-NEXT: %iota_r = num.iota from 1.000000e+00 : f64 by 2.000000e+00 : f64 : tensor<4xsi64>
  %iota_r = num.iota from 1.000000e+00 : f64 by 2.000000e+00 : f64 : tensor<4xsi64>
// CHECK-NEXT: %w = num.weight @layer.0.weight : tensor<2x3xf32>
  %w = num.weight @"layer.0.weight" : tensor<2x3xf32>
  func.return
}

func.func @opaque(%x: tensor<2x3xf32>) {
// CHECK-LABEL: func.func @opaque
// CHECK-NEXT: %o = num.opaque "torch.aten.foo" {k = "1 : i64"}(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %o = num.opaque "torch.aten.foo" {k = "1 : i64"}(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}
