// RUN: hnfc-opt %s | hnfc-opt - | filecheck %s
// RUN: hnfc-opt %s --print-op-generic | hnfc-opt - | filecheck %s
// Every operation of every family: the custom and the generic form parse to the same module.

func.func @elementary(%neg_x: tensor<3x5xf32>, %detach_x: tensor<3x5xf32>, %abs_x: tensor<3x5xf32>, %sign_x: tensor<3x5xf32>, %exp_x: tensor<3x5xf32>, %exp2_x: tensor<3x5xf32>, %expm1_x: tensor<3x5xf32>, %log_x: tensor<3x5xf32>, %log2_x: tensor<3x5xf32>, %log10_x: tensor<3x5xf32>, %log1p_x: tensor<3x5xf32>, %sqrt_x: tensor<3x5xf32>, %cbrt_x: tensor<3x5xf32>, %rsqrt_x: tensor<3x5xf32>, %square_x: tensor<3x5xf32>, %reciprocal_x: tensor<3x5xf32>) {
// CHECK-LABEL: func.func @elementary
// CHECK-NEXT: %neg_r = num.neg %neg_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %neg_r = num.neg %neg_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %detach_r = num.detach %detach_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %detach_r = num.detach %detach_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %abs_r = num.abs %abs_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %abs_r = num.abs %abs_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %sign_r = num.sign %sign_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %sign_r = num.sign %sign_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %exp_r = num.exp %exp_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %exp_r = num.exp %exp_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %exp2_r = num.exp2 %exp2_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %exp2_r = num.exp2 %exp2_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %expm1_r = num.expm1 %expm1_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %expm1_r = num.expm1 %expm1_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %log_r = num.log %log_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %log_r = num.log %log_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %log2_r = num.log2 %log2_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %log2_r = num.log2 %log2_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %log10_r = num.log10 %log10_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %log10_r = num.log10 %log10_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %log1p_r = num.log1p %log1p_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %log1p_r = num.log1p %log1p_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %sqrt_r = num.sqrt %sqrt_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %sqrt_r = num.sqrt %sqrt_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %cbrt_r = num.cbrt %cbrt_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %cbrt_r = num.cbrt %cbrt_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %rsqrt_r = num.rsqrt %rsqrt_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %rsqrt_r = num.rsqrt %rsqrt_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %square_r = num.square %square_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %square_r = num.square %square_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %reciprocal_r = num.reciprocal %reciprocal_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %reciprocal_r = num.reciprocal %reciprocal_x : tensor<3x5xf32> -> tensor<3x5xf32>
  func.return
}

func.func @trigonometry(%sin_x: tensor<3x5xf32>, %cos_x: tensor<3x5xf32>, %tan_x: tensor<3x5xf32>, %asin_x: tensor<3x5xf32>, %acos_x: tensor<3x5xf32>, %atan_x: tensor<3x5xf32>, %sinh_x: tensor<3x5xf32>, %cosh_x: tensor<3x5xf32>, %tanh_x: tensor<3x5xf32>, %asinh_x: tensor<3x5xf32>, %acosh_x: tensor<3x5xf32>, %atanh_x: tensor<3x5xf32>) {
// CHECK-LABEL: func.func @trigonometry
// CHECK-NEXT: %sin_r = num.sin %sin_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %sin_r = num.sin %sin_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %cos_r = num.cos %cos_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %cos_r = num.cos %cos_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %tan_r = num.tan %tan_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %tan_r = num.tan %tan_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %asin_r = num.asin %asin_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %asin_r = num.asin %asin_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %acos_r = num.acos %acos_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %acos_r = num.acos %acos_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %atan_r = num.atan %atan_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %atan_r = num.atan %atan_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %sinh_r = num.sinh %sinh_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %sinh_r = num.sinh %sinh_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %cosh_r = num.cosh %cosh_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %cosh_r = num.cosh %cosh_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %tanh_r = num.tanh %tanh_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %tanh_r = num.tanh %tanh_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %asinh_r = num.asinh %asinh_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %asinh_r = num.asinh %asinh_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %acosh_r = num.acosh %acosh_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %acosh_r = num.acosh %acosh_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %atanh_r = num.atanh %atanh_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %atanh_r = num.atanh %atanh_x : tensor<3x5xf32> -> tensor<3x5xf32>
  func.return
}

func.func @special(%erf_x: tensor<3x5xf32>, %erfc_x: tensor<3x5xf32>, %lgamma_x: tensor<3x5xf32>, %i0_x: tensor<3x5xf32>, %i0e_x: tensor<3x5xf32>, %log_ndtr_x: tensor<3x5xf32>) {
// CHECK-LABEL: func.func @special
// CHECK-NEXT: %erf_r = num.erf %erf_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %erf_r = num.erf %erf_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %erfc_r = num.erfc %erfc_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %erfc_r = num.erfc %erfc_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %lgamma_r = num.lgamma %lgamma_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %lgamma_r = num.lgamma %lgamma_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %i0_r = num.i0 %i0_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %i0_r = num.i0 %i0_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %i0e_r = num.i0e %i0e_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %i0e_r = num.i0e %i0e_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %log_ndtr_r = num.log_ndtr %log_ndtr_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %log_ndtr_r = num.log_ndtr %log_ndtr_x : tensor<3x5xf32> -> tensor<3x5xf32>
  func.return
}

func.func @activation(%sigmoid_x: tensor<3x5xf32>, %log_sigmoid_x: tensor<3x5xf32>, %silu_x: tensor<3x5xf32>, %softplus_x: tensor<3x5xf32>, %relu_x: tensor<3x5xf32>, %gelu_x: tensor<3x5xf32>, %mish_x: tensor<3x5xf32>) {
// CHECK-LABEL: func.func @activation
// CHECK-NEXT: %sigmoid_r = num.sigmoid %sigmoid_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %sigmoid_r = num.sigmoid %sigmoid_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %log_sigmoid_r = num.log_sigmoid %log_sigmoid_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %log_sigmoid_r = num.log_sigmoid %log_sigmoid_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %silu_r = num.silu %silu_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %silu_r = num.silu %silu_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %softplus_r = num.softplus %softplus_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %softplus_r = num.softplus %softplus_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %relu_r = num.relu %relu_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %relu_r = num.relu %relu_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %gelu_r = num.gelu %gelu_x "none" : tensor<3x5xf32> -> tensor<3x5xf32>
  %gelu_r = num.gelu %gelu_x "none" : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %mish_r = num.mish %mish_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %mish_r = num.mish %mish_x : tensor<3x5xf32> -> tensor<3x5xf32>
  func.return
}

func.func @arithmetic(%add_x: tensor<3x5xf32>, %add_y: tensor<3x5xf32>, %sub_x: tensor<3x5xf32>, %sub_y: tensor<3x5xf32>, %mul_x: tensor<3x5xf32>, %mul_y: tensor<3x5xf32>, %div_x: tensor<3x5xf32>, %div_y: tensor<3x5xf32>, %pow_x: tensor<3x5xf32>, %pow_y: tensor<3x5xf32>, %maximum_x: tensor<3x5xf32>, %maximum_y: tensor<3x5xf32>, %minimum_x: tensor<3x5xf32>, %minimum_y: tensor<3x5xf32>, %atan2_x: tensor<3x5xf32>, %atan2_y: tensor<3x5xf32>, %remainder_x: tensor<3x5xf32>, %remainder_y: tensor<3x5xf32>, %fmod_x: tensor<3x5xf32>, %fmod_y: tensor<3x5xf32>, %hypot_x: tensor<3x5xf32>, %hypot_y: tensor<3x5xf32>, %logaddexp_x: tensor<3x5xf32>, %logaddexp_y: tensor<3x5xf32>, %xlogy_x: tensor<3x5xf32>, %xlogy_y: tensor<3x5xf32>, %fma_x: tensor<3x5xf32>, %fma_y: tensor<5xf32>, %fma_z: tensor<f32>) {
// CHECK-LABEL: func.func @arithmetic
// CHECK-NEXT: %add_r = num.add %add_x, %add_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
  %add_r = num.add %add_x, %add_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %sub_r = num.sub %sub_x, %sub_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
  %sub_r = num.sub %sub_x, %sub_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %mul_r = num.mul %mul_x, %mul_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
  %mul_r = num.mul %mul_x, %mul_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %div_r = num.div %div_x, %div_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
  %div_r = num.div %div_x, %div_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %pow_r = num.pow %pow_x, %pow_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
  %pow_r = num.pow %pow_x, %pow_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %maximum_r = num.maximum %maximum_x, %maximum_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
  %maximum_r = num.maximum %maximum_x, %maximum_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %minimum_r = num.minimum %minimum_x, %minimum_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
  %minimum_r = num.minimum %minimum_x, %minimum_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %atan2_r = num.atan2 %atan2_x, %atan2_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
  %atan2_r = num.atan2 %atan2_x, %atan2_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %remainder_r = num.remainder %remainder_x, %remainder_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
  %remainder_r = num.remainder %remainder_x, %remainder_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %fmod_r = num.fmod %fmod_x, %fmod_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
  %fmod_r = num.fmod %fmod_x, %fmod_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %hypot_r = num.hypot %hypot_x, %hypot_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
  %hypot_r = num.hypot %hypot_x, %hypot_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %logaddexp_r = num.logaddexp %logaddexp_x, %logaddexp_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
  %logaddexp_r = num.logaddexp %logaddexp_x, %logaddexp_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %xlogy_r = num.xlogy %xlogy_x, %xlogy_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
  %xlogy_r = num.xlogy %xlogy_x, %xlogy_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %fma_r = num.fma %fma_x, %fma_y, %fma_z : tensor<3x5xf32>, tensor<5xf32>, tensor<f32> -> tensor<3x5xf32>
  %fma_r = num.fma %fma_x, %fma_y, %fma_z : tensor<3x5xf32>, tensor<5xf32>, tensor<f32> -> tensor<3x5xf32>
  func.return
}

func.func @rounding(%floor_x: tensor<3x5xf32>, %ceil_x: tensor<3x5xf32>, %trunc_x: tensor<3x5xf32>, %round_x: tensor<3x5xf32>, %round_to_x: tensor<3x5xf32>, %cast_x: tensor<3x5xf32>) {
// CHECK-LABEL: func.func @rounding
// CHECK-NEXT: %floor_r = num.floor %floor_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %floor_r = num.floor %floor_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %ceil_r = num.ceil %ceil_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %ceil_r = num.ceil %ceil_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %trunc_r = num.trunc %trunc_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %trunc_r = num.trunc %trunc_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %round_r = num.round %round_x : tensor<3x5xf32> -> tensor<3x5xf32>
  %round_r = num.round %round_x : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %round_to_r = num.round_to %round_to_x "f16" : tensor<3x5xf32> -> tensor<3x5xf32>
  %round_to_r = num.round_to %round_to_x "f16" : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %cast_r = num.cast %cast_x : tensor<3x5xf32> -> tensor<3x5xf16>
  %cast_r = num.cast %cast_x : tensor<3x5xf32> -> tensor<3x5xf16>
  func.return
}

func.func @comparison(%compare_x: tensor<3x5xf32>, %compare_y: tensor<3x5xf32>, %where_x: tensor<3x5xi1>, %where_y: tensor<3x5xf32>, %where_z: tensor<5xf32>, %isnan_x: tensor<3x5xf32>, %isinf_x: tensor<3x5xf32>, %isfinite_x: tensor<3x5xf32>, %logical_not_x: tensor<3x5xi1>, %logical_and_x: tensor<3x5xi1>, %logical_and_y: tensor<5xi1>, %logical_or_x: tensor<3x5xi1>, %logical_or_y: tensor<5xi1>, %logical_xor_x: tensor<3x5xi1>, %logical_xor_y: tensor<5xi1>) {
// CHECK-LABEL: func.func @comparison
// CHECK-NEXT: %compare_r = num.compare "eq" %compare_x, %compare_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xi1>
  %compare_r = num.compare "eq" %compare_x, %compare_y : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xi1>
// CHECK-NEXT: %where_r = num.where %where_x, %where_y, %where_z : tensor<3x5xi1>, tensor<3x5xf32>, tensor<5xf32> -> tensor<3x5xf32>
  %where_r = num.where %where_x, %where_y, %where_z : tensor<3x5xi1>, tensor<3x5xf32>, tensor<5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %isnan_r = num.isnan %isnan_x : tensor<3x5xf32> -> tensor<3x5xi1>
  %isnan_r = num.isnan %isnan_x : tensor<3x5xf32> -> tensor<3x5xi1>
// CHECK-NEXT: %isinf_r = num.isinf %isinf_x : tensor<3x5xf32> -> tensor<3x5xi1>
  %isinf_r = num.isinf %isinf_x : tensor<3x5xf32> -> tensor<3x5xi1>
// CHECK-NEXT: %isfinite_r = num.isfinite %isfinite_x : tensor<3x5xf32> -> tensor<3x5xi1>
  %isfinite_r = num.isfinite %isfinite_x : tensor<3x5xf32> -> tensor<3x5xi1>
// CHECK-NEXT: %logical_not_r = num.logical_not %logical_not_x : tensor<3x5xi1> -> tensor<3x5xi1>
  %logical_not_r = num.logical_not %logical_not_x : tensor<3x5xi1> -> tensor<3x5xi1>
// CHECK-NEXT: %logical_and_r = num.logical_and %logical_and_x, %logical_and_y : tensor<3x5xi1>, tensor<5xi1> -> tensor<3x5xi1>
  %logical_and_r = num.logical_and %logical_and_x, %logical_and_y : tensor<3x5xi1>, tensor<5xi1> -> tensor<3x5xi1>
// CHECK-NEXT: %logical_or_r = num.logical_or %logical_or_x, %logical_or_y : tensor<3x5xi1>, tensor<5xi1> -> tensor<3x5xi1>
  %logical_or_r = num.logical_or %logical_or_x, %logical_or_y : tensor<3x5xi1>, tensor<5xi1> -> tensor<3x5xi1>
// CHECK-NEXT: %logical_xor_r = num.logical_xor %logical_xor_x, %logical_xor_y : tensor<3x5xi1>, tensor<5xi1> -> tensor<3x5xi1>
  %logical_xor_r = num.logical_xor %logical_xor_x, %logical_xor_y : tensor<3x5xi1>, tensor<5xi1> -> tensor<3x5xi1>
  func.return
}

func.func @reduction(%sum_x: tensor<3x5xf32>, %prod_x: tensor<3x5xf32>, %max_x: tensor<3x5xf32>, %min_x: tensor<3x5xf32>, %mean_x: tensor<3x5xf32>, %var_x: tensor<3x5xf32>, %logsumexp_x: tensor<3x5xf32>, %argmax_x: tensor<3x5xf32>, %argmin_x: tensor<3x5xf32>, %any_x: tensor<3x5xi1>, %all_x: tensor<3x5xi1>, %cumsum_x: tensor<3x5xf32>) {
// CHECK-LABEL: func.func @reduction
// CHECK-NEXT: %sum_r = num.sum %sum_x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
  %sum_r = num.sum %sum_x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
// CHECK-NEXT: %prod_r = num.prod %prod_x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
  %prod_r = num.prod %prod_x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
// CHECK-NEXT: %max_r = num.max %max_x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
  %max_r = num.max %max_x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
// CHECK-NEXT: %min_r = num.min %min_x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
  %min_r = num.min %min_x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
// CHECK-NEXT: %mean_r = num.mean %mean_x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
  %mean_r = num.mean %mean_x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
// CHECK-NEXT: %var_r = num.var %var_x [1] correction 0.000000e+00 : f64 : tensor<3x5xf32> -> tensor<3x1xf32>
  %var_r = num.var %var_x [1] correction 0.000000e+00 : f64 : tensor<3x5xf32> -> tensor<3x1xf32>
// CHECK-NEXT: %logsumexp_r = num.logsumexp %logsumexp_x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
  %logsumexp_r = num.logsumexp %logsumexp_x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
// CHECK-NEXT: %argmax_r = num.argmax %argmax_x [1] : tensor<3x5xf32> -> tensor<3x1xsi64>
  %argmax_r = num.argmax %argmax_x [1] : tensor<3x5xf32> -> tensor<3x1xsi64>
// CHECK-NEXT: %argmin_r = num.argmin %argmin_x [1] : tensor<3x5xf32> -> tensor<3x1xsi64>
  %argmin_r = num.argmin %argmin_x [1] : tensor<3x5xf32> -> tensor<3x1xsi64>
// CHECK-NEXT: %any_r = num.any %any_x [1] : tensor<3x5xi1> -> tensor<3x1xi1>
  %any_r = num.any %any_x [1] : tensor<3x5xi1> -> tensor<3x1xi1>
// CHECK-NEXT: %all_r = num.all %all_x [1] : tensor<3x5xi1> -> tensor<3x1xi1>
  %all_r = num.all %all_x [1] : tensor<3x5xi1> -> tensor<3x1xi1>
// CHECK-NEXT: %cumsum_r = num.cumsum %cumsum_x 1 : i64 : tensor<3x5xf32> -> tensor<3x5xf32>
  %cumsum_r = num.cumsum %cumsum_x 1 : i64 : tensor<3x5xf32> -> tensor<3x5xf32>
  func.return
}

func.func @normalization(%softmax_x: tensor<3x5xf32>, %log_softmax_x: tensor<3x5xf32>, %normalize_x: tensor<3x5xf32>, %layer_norm_x: tensor<3x8xf32>, %rms_norm_x: tensor<3x8xf32>, %rms_norm_y: tensor<8xf32>, %batch_norm_x: tensor<2x4x6x6xf32>, %batch_norm_y: tensor<1x4x1x1xf32>, %batch_norm_z: tensor<1x4x1x1xf32>, %batch_norm_u: tensor<1x4x1x1xf32>, %batch_norm_v: tensor<1x4x1x1xf32>, %group_norm_x: tensor<2x4x6x6xf32>, %group_norm_y: tensor<4xf32>, %group_norm_z: tensor<4xf32>, %attention_x: tensor<2x3x4x8xf32>, %attention_y: tensor<2x3x5x8xf32>, %attention_z: tensor<2x3x5x8xf32>) {
// CHECK-LABEL: func.func @normalization
// CHECK-NEXT: %softmax_r = num.softmax %softmax_x [1] : tensor<3x5xf32> -> tensor<3x5xf32>
  %softmax_r = num.softmax %softmax_x [1] : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %log_softmax_r = num.log_softmax %log_softmax_x [1] : tensor<3x5xf32> -> tensor<3x5xf32>
  %log_softmax_r = num.log_softmax %log_softmax_x [1] : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %normalize_r = num.normalize %normalize_x [1] eps 1.000000e-12 : f64 : tensor<3x5xf32> -> tensor<3x5xf32>
  %normalize_r = num.normalize %normalize_x [1] eps 1.000000e-12 : f64 : tensor<3x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %layer_norm_r = num.layer_norm %layer_norm_x [1] eps 1.000000e-05 : f64 : tensor<3x8xf32> -> tensor<3x8xf32>
  %layer_norm_r = num.layer_norm %layer_norm_x [1] eps 1.000000e-05 : f64 : tensor<3x8xf32> -> tensor<3x8xf32>
// CHECK-NEXT: %rms_norm_r = num.rms_norm %rms_norm_x, %rms_norm_y [1] eps 1.000000e-05 : f64 : tensor<3x8xf32>, tensor<8xf32> -> tensor<3x8xf32>
  %rms_norm_r = num.rms_norm %rms_norm_x, %rms_norm_y [1] eps 1.000000e-05 : f64 : tensor<3x8xf32>, tensor<8xf32> -> tensor<3x8xf32>
// CHECK-NEXT: %batch_norm_r = num.batch_norm %batch_norm_x, %batch_norm_y, %batch_norm_z, %batch_norm_u, %batch_norm_v eps 1.000000e-05 : f64 : tensor<2x4x6x6xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32> -> tensor<2x4x6x6xf32>
  %batch_norm_r = num.batch_norm %batch_norm_x, %batch_norm_y, %batch_norm_z, %batch_norm_u, %batch_norm_v eps 1.000000e-05 : f64 : tensor<2x4x6x6xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32> -> tensor<2x4x6x6xf32>
// CHECK-NEXT: %group_norm_r = num.group_norm %group_norm_x, %group_norm_y, %group_norm_z groups 2 : i64 eps 1.000000e-05 : f64 : tensor<2x4x6x6xf32>, tensor<4xf32>, tensor<4xf32> -> tensor<2x4x6x6xf32>
  %group_norm_r = num.group_norm %group_norm_x, %group_norm_y, %group_norm_z groups 2 : i64 eps 1.000000e-05 : f64 : tensor<2x4x6x6xf32>, tensor<4xf32>, tensor<4xf32> -> tensor<2x4x6x6xf32>
// CHECK-NEXT: %attention_r = num.attention %attention_x, %attention_y, %attention_z scale 5.000000e-01 : f64 causal false : tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32> -> tensor<2x3x4x8xf32>
  %attention_r = num.attention %attention_x, %attention_y, %attention_z scale 5.000000e-01 : f64 causal false : tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32> -> tensor<2x3x4x8xf32>
  func.return
}

func.func @compensated(%kahan_sum_x: tensor<3x5xf32>, %pairwise_sum_x: tensor<3x5xf32>, %two_sum_x: tensor<3x5xf32>, %two_sum_y: tensor<5xf32>) {
// CHECK-LABEL: func.func @compensated
// CHECK-NEXT: %kahan_sum_r = num.kahan_sum %kahan_sum_x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
  %kahan_sum_r = num.kahan_sum %kahan_sum_x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
// CHECK-NEXT: %pairwise_sum_r = num.pairwise_sum %pairwise_sum_x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
  %pairwise_sum_r = num.pairwise_sum %pairwise_sum_x [1] : tensor<3x5xf32> -> tensor<3x1xf32>
// CHECK-NEXT: %two_sum_s, %two_sum_t = num.two_sum %two_sum_x, %two_sum_y : tensor<3x5xf32>, tensor<5xf32> -> tensor<3x5xf32>, tensor<3x5xf32>
  %two_sum_s, %two_sum_t = num.two_sum %two_sum_x, %two_sum_y : tensor<3x5xf32>, tensor<5xf32> -> tensor<3x5xf32>, tensor<3x5xf32>
  func.return
}

func.func @contraction(%matmul_x: tensor<3x5xf32>, %matmul_y: tensor<5x4xf32>, %affine_x: tensor<3x4xf32>, %affine_y: tensor<4x5xf32>, %affine_z: tensor<5xf32>, %conv_x: tensor<2x4x6x6xf32>, %conv_y: tensor<6x2x3x3xf32>, %max_pool_x: tensor<2x4x6x6xf32>, %avg_pool_x: tensor<2x4x6x6xf32>, %embedding_x: tensor<4x3xf32>, %embedding_y: tensor<2x5xsi64>, %gather_x: tensor<4x3xf32>, %gather_y: tensor<4x2xsi64>, %index_select_x: tensor<4x3xf32>, %index_select_y: tensor<5xsi64>) {
// CHECK-LABEL: func.func @contraction
// CHECK-NEXT: %matmul_r = num.matmul %matmul_x, %matmul_y : tensor<3x5xf32>, tensor<5x4xf32> -> tensor<3x4xf32>
  %matmul_r = num.matmul %matmul_x, %matmul_y : tensor<3x5xf32>, tensor<5x4xf32> -> tensor<3x4xf32>
// CHECK-NEXT: %affine_r = num.affine %affine_x, %affine_y, %affine_z : tensor<3x4xf32>, tensor<4x5xf32>, tensor<5xf32> -> tensor<3x5xf32>
  %affine_r = num.affine %affine_x, %affine_y, %affine_z : tensor<3x4xf32>, tensor<4x5xf32>, tensor<5xf32> -> tensor<3x5xf32>
// CHECK-NEXT: %conv_r = num.conv %conv_x, %conv_y stride [1, 1] padding [1, 1] dilation [1, 1] groups 2 : i64 : tensor<2x4x6x6xf32>, tensor<6x2x3x3xf32> -> tensor<2x6x6x6xf32>
  %conv_r = num.conv %conv_x, %conv_y stride [1, 1] padding [1, 1] dilation [1, 1] groups 2 : i64 : tensor<2x4x6x6xf32>, tensor<6x2x3x3xf32> -> tensor<2x6x6x6xf32>
// CHECK-NEXT: %max_pool_r = num.max_pool %max_pool_x kernel [3, 3] stride [2, 2] padding [1, 1] dilation [1, 1] ceil false : tensor<2x4x6x6xf32> -> tensor<2x4x3x3xf32>
  %max_pool_r = num.max_pool %max_pool_x kernel [3, 3] stride [2, 2] padding [1, 1] dilation [1, 1] ceil false : tensor<2x4x6x6xf32> -> tensor<2x4x3x3xf32>
// CHECK-NEXT: %avg_pool_r = num.avg_pool %avg_pool_x kernel [3, 3] stride [2, 2] padding [1, 1] ceil false count_padding true : tensor<2x4x6x6xf32> -> tensor<2x4x3x3xf32>
  %avg_pool_r = num.avg_pool %avg_pool_x kernel [3, 3] stride [2, 2] padding [1, 1] ceil false count_padding true : tensor<2x4x6x6xf32> -> tensor<2x4x3x3xf32>
// CHECK-NEXT: %embedding_r = num.embedding %embedding_x, %embedding_y : tensor<4x3xf32>, tensor<2x5xsi64> -> tensor<2x5x3xf32>
  %embedding_r = num.embedding %embedding_x, %embedding_y : tensor<4x3xf32>, tensor<2x5xsi64> -> tensor<2x5x3xf32>
// CHECK-NEXT: %gather_r = num.gather %gather_x, %gather_y 1 : i64 : tensor<4x3xf32>, tensor<4x2xsi64> -> tensor<4x2xf32>
  %gather_r = num.gather %gather_x, %gather_y 1 : i64 : tensor<4x3xf32>, tensor<4x2xsi64> -> tensor<4x2xf32>
// CHECK-NEXT: %index_select_r = num.index_select %index_select_x, %index_select_y 1 : i64 : tensor<4x3xf32>, tensor<5xsi64> -> tensor<4x5xf32>
  %index_select_r = num.index_select %index_select_x, %index_select_y 1 : i64 : tensor<4x3xf32>, tensor<5xsi64> -> tensor<4x5xf32>
  func.return
}

func.func @movement(%transpose_x: tensor<2x3x4xf32>, %reshape_x: tensor<3x5xf32>, %broadcast_x: tensor<3x1xf32>, %slice_x: tensor<3x5xf32>, %concat_x: tensor<3x5xf32>, %concat_y: tensor<3x2xf32>, %pad_x: tensor<3x5xf32>, %reverse_x: tensor<3x5xf32>) {
// CHECK-LABEL: func.func @movement
// CHECK-NEXT: %transpose_r = num.transpose %transpose_x [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  %transpose_r = num.transpose %transpose_x [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
// CHECK-NEXT: %reshape_r = num.reshape %reshape_x : tensor<3x5xf32> -> tensor<5x3xf32>
  %reshape_r = num.reshape %reshape_x : tensor<3x5xf32> -> tensor<5x3xf32>
// CHECK-NEXT: %broadcast_r = num.broadcast %broadcast_x : tensor<3x1xf32> -> tensor<2x3x5xf32>
  %broadcast_r = num.broadcast %broadcast_x : tensor<3x1xf32> -> tensor<2x3x5xf32>
// CHECK-NEXT: %slice_r = num.slice %slice_x axis 1 : i64 from 1 : i64 to -1 : i64 by 2 : i64 : tensor<3x5xf32> -> tensor<3x2xf32>
  %slice_r = num.slice %slice_x axis 1 : i64 from 1 : i64 to -1 : i64 by 2 : i64 : tensor<3x5xf32> -> tensor<3x2xf32>
// CHECK-NEXT: %concat_r = num.concat %concat_x, %concat_y 1 : i64 : tensor<3x5xf32>, tensor<3x2xf32> -> tensor<3x7xf32>
  %concat_r = num.concat %concat_x, %concat_y 1 : i64 : tensor<3x5xf32>, tensor<3x2xf32> -> tensor<3x7xf32>
// CHECK-NEXT: %pad_r = num.pad %pad_x low [0, 1] high [1, 2] value 1.500000e+00 : f64 : tensor<3x5xf32> -> tensor<4x8xf32>
  %pad_r = num.pad %pad_x low [0, 1] high [1, 2] value 1.500000e+00 : f64 : tensor<3x5xf32> -> tensor<4x8xf32>
// CHECK-NEXT: %reverse_r = num.reverse %reverse_x [0, 1] : tensor<3x5xf32> -> tensor<3x5xf32>
  %reverse_r = num.reverse %reverse_x [0, 1] : tensor<3x5xf32> -> tensor<3x5xf32>
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
