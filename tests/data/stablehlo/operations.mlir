// Operations that the torch dialect has. Each function alone is a module: tests/frontend/test_stablehlo_operations.py runs it.

func.func @abs(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.abs %arg0 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @ceil(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.ceil %arg0 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @cosine(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.cosine %arg0 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @exponential(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.exponential %arg0 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @exponential_minus_one(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.exponential_minus_one %arg0 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @floor(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.floor %arg0 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @log_plus_one(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.log_plus_one %arg0 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @logistic(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.logistic %arg0 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @negate(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.negate %arg0 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @round_nearest_even(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.round_nearest_even %arg0 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @round_nearest_afz(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.round_nearest_afz %arg0 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @sign(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.sign %arg0 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @sine(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.sine %arg0 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @tan_of_chlo(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = chlo.tan %arg0 : tensor<3x4xf32> -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @tanh(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.tanh %arg0 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @sqrt(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.sqrt %arg0 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @rsqrt(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.rsqrt %arg0 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @log(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.log %arg0 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @erf(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = chlo.erf %arg0 : tensor<3x4xf32> -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @erfc(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = chlo.erfc %arg0 : tensor<3x4xf32> -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @acos(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = chlo.acos %arg0 : tensor<3x4xf32> -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @acosh(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = chlo.acosh %arg0 : tensor<3x4xf32> -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @asin(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = chlo.asin %arg0 : tensor<3x4xf32> -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @asinh(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = chlo.asinh %arg0 : tensor<3x4xf32> -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @atan(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = chlo.atan %arg0 : tensor<3x4xf32> -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @atanh(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = chlo.atanh %arg0 : tensor<3x4xf32> -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @cosh(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = chlo.cosh %arg0 : tensor<3x4xf32> -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @sinh(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = chlo.sinh %arg0 : tensor<3x4xf32> -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @square(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = chlo.square %arg0 : tensor<3x4xf32> -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @lgamma(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = chlo.lgamma %arg0 : tensor<3x4xf32> -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @digamma(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = chlo.digamma %arg0 : tensor<3x4xf32> -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @add(%arg0: tensor<3x4xf32>, %arg1: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.add %arg0, %arg1 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @subtract(%arg0: tensor<3x4xf32>, %arg1: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.subtract %arg0, %arg1 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @multiply(%arg0: tensor<3x4xf32>, %arg1: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.multiply %arg0, %arg1 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @divide(%arg0: tensor<3x4xf32>, %arg1: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.divide %arg0, %arg1 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @maximum(%arg0: tensor<3x4xf32>, %arg1: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.maximum %arg0, %arg1 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @minimum(%arg0: tensor<3x4xf32>, %arg1: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.minimum %arg0, %arg1 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @remainder(%arg0: tensor<3x4xf32>, %arg1: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.remainder %arg0, %arg1 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @atan2(%arg0: tensor<3x4xf32>, %arg1: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.atan2 %arg0, %arg1 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @whole_add(%arg0: tensor<3x4xi32>, %arg1: tensor<3x4xi32>) -> (tensor<3x4xi32>) {
  %r = stablehlo.add %arg0, %arg1 : tensor<3x4xi32>
  return %r : tensor<3x4xi32>
}

// -----

func.func @whole_subtract(%arg0: tensor<3x4xi32>, %arg1: tensor<3x4xi32>) -> (tensor<3x4xi32>) {
  %r = stablehlo.subtract %arg0, %arg1 : tensor<3x4xi32>
  return %r : tensor<3x4xi32>
}

// -----

func.func @whole_multiply(%arg0: tensor<3x4xi32>, %arg1: tensor<3x4xi32>) -> (tensor<3x4xi32>) {
  %r = stablehlo.multiply %arg0, %arg1 : tensor<3x4xi32>
  return %r : tensor<3x4xi32>
}

// -----

func.func @whole_divide(%arg0: tensor<3x4xi32>, %arg1: tensor<3x4xi32>) -> (tensor<3x4xi32>) {
  %r = stablehlo.divide %arg0, %arg1 : tensor<3x4xi32>
  return %r : tensor<3x4xi32>
}

// -----

func.func @whole_maximum(%arg0: tensor<3x4xi32>) -> (tensor<3xi32>) {
  %i = stablehlo.constant dense<-2147483648> : tensor<i32>
  %r = stablehlo.reduce(%arg0 init: %i) applies stablehlo.maximum across dimensions = [1] : (tensor<3x4xi32>, tensor<i32>) -> tensor<3xi32>
  return %r : tensor<3xi32>
}

// -----

func.func @whole_minimum(%arg0: tensor<3x4xi32>, %arg1: tensor<3x4xi32>) -> (tensor<3x4xi32>) {
  %r = stablehlo.minimum %arg0, %arg1 : tensor<3x4xi32>
  return %r : tensor<3x4xi32>
}

// -----

func.func @whole_remainder(%arg0: tensor<3x4xi32>, %arg1: tensor<3x4xi32>) -> (tensor<3x4xi32>) {
  %r = stablehlo.remainder %arg0, %arg1 : tensor<3x4xi32>
  return %r : tensor<3x4xi32>
}

// -----

func.func @whole_and(%arg0: tensor<3x4xi32>, %arg1: tensor<3x4xi32>) -> (tensor<3x4xi32>) {
  %r = stablehlo.and %arg0, %arg1 : tensor<3x4xi32>
  return %r : tensor<3x4xi32>
}

// -----

func.func @whole_or(%arg0: tensor<3x4xi32>, %arg1: tensor<3x4xi32>) -> (tensor<3x4xi32>) {
  %r = stablehlo.or %arg0, %arg1 : tensor<3x4xi32>
  return %r : tensor<3x4xi32>
}

// -----

func.func @whole_xor(%arg0: tensor<3x4xi32>, %arg1: tensor<3x4xi32>) -> (tensor<3x4xi32>) {
  %r = stablehlo.xor %arg0, %arg1 : tensor<3x4xi32>
  return %r : tensor<3x4xi32>
}

// -----

func.func @logic_add(%arg0: tensor<3x4xi1>, %arg1: tensor<3x4xi1>) -> (tensor<3x4xi1>) {
  %r = stablehlo.add %arg0, %arg1 : tensor<3x4xi1>
  return %r : tensor<3x4xi1>
}

// -----

func.func @logic_multiply(%arg0: tensor<3x4xi1>, %arg1: tensor<3x4xi1>) -> (tensor<3x4xi1>) {
  %r = stablehlo.multiply %arg0, %arg1 : tensor<3x4xi1>
  return %r : tensor<3x4xi1>
}

// -----

func.func @logic_and(%arg0: tensor<3x4xi1>, %arg1: tensor<3x4xi1>) -> (tensor<3x4xi1>) {
  %r = stablehlo.and %arg0, %arg1 : tensor<3x4xi1>
  return %r : tensor<3x4xi1>
}

// -----

func.func @logic_or(%arg0: tensor<3x4xi1>, %arg1: tensor<3x4xi1>) -> (tensor<3x4xi1>) {
  %r = stablehlo.or %arg0, %arg1 : tensor<3x4xi1>
  return %r : tensor<3x4xi1>
}

// -----

func.func @logic_xor(%arg0: tensor<3x4xi1>, %arg1: tensor<3x4xi1>) -> (tensor<3x4xi1>) {
  %r = stablehlo.xor %arg0, %arg1 : tensor<3x4xi1>
  return %r : tensor<3x4xi1>
}

// -----

func.func @logic_maximum(%arg0: tensor<3x4xi1>, %arg1: tensor<3x4xi1>) -> (tensor<3x4xi1>) {
  %r = stablehlo.maximum %arg0, %arg1 : tensor<3x4xi1>
  return %r : tensor<3x4xi1>
}

// -----

func.func @logic_minimum(%arg0: tensor<3x4xi1>, %arg1: tensor<3x4xi1>) -> (tensor<3x4xi1>) {
  %r = stablehlo.minimum %arg0, %arg1 : tensor<3x4xi1>
  return %r : tensor<3x4xi1>
}

// -----

func.func @compare_EQ(%arg0: tensor<3x4xf32>, %arg1: tensor<3x4xf32>) -> (tensor<3x4xi1>) {
  %r = stablehlo.compare EQ, %arg0, %arg1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xi1>
  return %r : tensor<3x4xi1>
}

// -----

func.func @compare_NE(%arg0: tensor<3x4xf32>, %arg1: tensor<3x4xf32>) -> (tensor<3x4xi1>) {
  %r = stablehlo.compare NE, %arg0, %arg1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xi1>
  return %r : tensor<3x4xi1>
}

// -----

func.func @compare_GE(%arg0: tensor<3x4xf32>, %arg1: tensor<3x4xf32>) -> (tensor<3x4xi1>) {
  %r = stablehlo.compare GE, %arg0, %arg1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xi1>
  return %r : tensor<3x4xi1>
}

// -----

func.func @compare_GT(%arg0: tensor<3x4xf32>, %arg1: tensor<3x4xf32>) -> (tensor<3x4xi1>) {
  %r = stablehlo.compare GT, %arg0, %arg1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xi1>
  return %r : tensor<3x4xi1>
}

// -----

func.func @compare_LE(%arg0: tensor<3x4xf32>, %arg1: tensor<3x4xf32>) -> (tensor<3x4xi1>) {
  %r = stablehlo.compare LE, %arg0, %arg1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xi1>
  return %r : tensor<3x4xi1>
}

// -----

func.func @compare_LT(%arg0: tensor<3x4xf32>, %arg1: tensor<3x4xf32>) -> (tensor<3x4xi1>) {
  %r = stablehlo.compare LT, %arg0, %arg1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xi1>
  return %r : tensor<3x4xi1>
}

// -----

func.func @compare_whole_EQ(%arg0: tensor<3x4xi32>, %arg1: tensor<3x4xi32>) -> (tensor<3x4xi1>) {
  %r = stablehlo.compare EQ, %arg0, %arg1, SIGNED : (tensor<3x4xi32>, tensor<3x4xi32>) -> tensor<3x4xi1>
  return %r : tensor<3x4xi1>
}

// -----

func.func @compare_whole_NE(%arg0: tensor<3x4xi32>, %arg1: tensor<3x4xi32>) -> (tensor<3x4xi1>) {
  %r = stablehlo.compare NE, %arg0, %arg1, SIGNED : (tensor<3x4xi32>, tensor<3x4xi32>) -> tensor<3x4xi1>
  return %r : tensor<3x4xi1>
}

// -----

func.func @compare_whole_GE(%arg0: tensor<3x4xi32>, %arg1: tensor<3x4xi32>) -> (tensor<3x4xi1>) {
  %r = stablehlo.compare GE, %arg0, %arg1, SIGNED : (tensor<3x4xi32>, tensor<3x4xi32>) -> tensor<3x4xi1>
  return %r : tensor<3x4xi1>
}

// -----

func.func @compare_whole_LT(%arg0: tensor<3x4xi32>, %arg1: tensor<3x4xi32>) -> (tensor<3x4xi1>) {
  %r = stablehlo.compare LT, %arg0, %arg1, SIGNED : (tensor<3x4xi32>, tensor<3x4xi32>) -> tensor<3x4xi1>
  return %r : tensor<3x4xi1>
}

// -----

func.func @compare_logic_EQ(%arg0: tensor<3x4xi1>, %arg1: tensor<3x4xi1>) -> (tensor<3x4xi1>) {
  %r = stablehlo.compare EQ, %arg0, %arg1, UNSIGNED : (tensor<3x4xi1>, tensor<3x4xi1>) -> tensor<3x4xi1>
  return %r : tensor<3x4xi1>
}

// -----

func.func @compare_logic_NE(%arg0: tensor<3x4xi1>, %arg1: tensor<3x4xi1>) -> (tensor<3x4xi1>) {
  %r = stablehlo.compare NE, %arg0, %arg1, UNSIGNED : (tensor<3x4xi1>, tensor<3x4xi1>) -> tensor<3x4xi1>
  return %r : tensor<3x4xi1>
}

// -----

func.func @power(%arg0: tensor<3x4xf32>, %arg1: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %x = stablehlo.abs %arg0 : tensor<3x4xf32>
  %r = stablehlo.power %x, %arg1 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @not(%arg0: tensor<3xi32>, %arg1: tensor<3xi1>) -> (tensor<3xi32>, tensor<3xi1>) {
  %r = stablehlo.not %arg0 : tensor<3xi32>
  %s = stablehlo.not %arg1 : tensor<3xi1>
  return %r, %s : tensor<3xi32>, tensor<3xi1>
}

// -----

func.func @is_finite(%arg0: tensor<3x4xf32>) -> (tensor<3x4xi1>) {
  %r = stablehlo.is_finite %arg0 : (tensor<3x4xf32>) -> tensor<3x4xi1>
  return %r : tensor<3x4xi1>
}

// -----

func.func @shifts(%arg0: tensor<4xi32>) -> (tensor<4xi32>) {
  %c = stablehlo.constant dense<3> : tensor<4xi32>
  %a = stablehlo.shift_left %arg0, %c : tensor<4xi32>
  %r = stablehlo.shift_right_arithmetic %a, %c : tensor<4xi32>
  return %r : tensor<4xi32>
}

// -----

func.func @select(%arg0: tensor<3x4xi1>, %arg1: tensor<3x4xf32>, %arg2: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.select %arg0, %arg1, %arg2 : tensor<3x4xi1>, tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @select_scalar(%arg0: tensor<i1>, %arg1: tensor<3xf32>, %arg2: tensor<3xf32>) -> (tensor<3xf32>) {
  %r = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

func.func @clamp(%arg0: tensor<f32>, %arg1: tensor<3x4xf32>, %arg2: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %h = stablehlo.constant dense<0.5> : tensor<f32>
  %r = stablehlo.clamp %arg0, %arg1, %h : (tensor<f32>, tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @clamp_numbers(%arg0: tensor<4xf32>) -> (tensor<4xf32>) {
  %l = stablehlo.constant dense<-0.5> : tensor<f32>
  %h = stablehlo.constant dense<0.5> : tensor<f32>
  %r = stablehlo.clamp %l, %arg0, %h : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @converts(%arg0: tensor<4xf32>, %arg1: tensor<4xi1>, %arg2: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xf32>, tensor<4xf16>, tensor<4xi1>) {
  %r = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xi32>
  %s = stablehlo.convert %arg1 : (tensor<4xi1>) -> tensor<4xf32>
  %t = stablehlo.convert %arg2 : (tensor<4xi32>) -> tensor<4xf16>
  %u = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xi1>
  return %r, %s, %t, %u : tensor<4xi32>, tensor<4xf32>, tensor<4xf16>, tensor<4xi1>
}

// -----

func.func @reduce_precision(%arg0: tensor<4xf32>) -> (tensor<4xf32>) {
  %r = stablehlo.reduce_precision %arg0, format = e8m7 : tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @constants(%arg0: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xi32>, tensor<3xi1>, tensor<2xi8>) {
  %c = stablehlo.constant dense<[[1.0, 2.0], [0x7F800000, 0.5]]> : tensor<2x2xf32>
  %r = stablehlo.multiply %arg0, %c : tensor<2x2xf32>
  %s = stablehlo.constant dense<[7, -7]> : tensor<2xi32>
  %t = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>
  %u = stablehlo.constant dense<-3> : tensor<2xi8>
  return %r, %s, %t, %u : tensor<2x2xf32>, tensor<2xi32>, tensor<3xi1>, tensor<2xi8>
}

// -----

func.func @iota(%arg0: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>) {
  %i = stablehlo.iota dim = 1 : tensor<2x3x4xf32>
  %r = stablehlo.add %arg0, %i : tensor<2x3x4xf32>
  return %r : tensor<2x3x4xf32>
}

// -----

func.func @reshape(%arg0: tensor<2x6xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.reshape %arg0 : (tensor<2x6xf32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @transpose(%arg0: tensor<2x3x4xf32>) -> (tensor<4x2x3xf32>) {
  %r = stablehlo.transpose %arg0, dims = [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  return %r : tensor<4x2x3xf32>
}

// -----

func.func @reverse(%arg0: tensor<2x3xf32>) -> (tensor<2x3xf32>) {
  %r = stablehlo.reverse %arg0, dims = [0, 1] : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

func.func @slice(%arg0: tensor<5x6xf32>) -> (tensor<2x2xf32>) {
  %r = stablehlo.slice %arg0 [1:5:3, 2:4] : (tensor<5x6xf32>) -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}

// -----

func.func @concatenate(%arg0: tensor<2x3xf32>, %arg1: tensor<2x1xf32>) -> (tensor<2x4xf32>) {
  %r = stablehlo.concatenate %arg0, %arg1, dim = 1 : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}

// -----

func.func @pad(%arg0: tensor<3x4xf32>) -> (tensor<4x5xf32>) {
  %v = stablehlo.constant dense<1.5> : tensor<f32>
  %r = stablehlo.pad %arg0, %v, low = [2, -1], high = [-1, 2], interior = [0, 0] : (tensor<3x4xf32>, tensor<f32>) -> tensor<4x5xf32>
  return %r : tensor<4x5xf32>
}

// -----

func.func @broadcast_new_axis(%arg0: tensor<3xf32>, %arg1: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %b = stablehlo.broadcast_in_dim %arg0, dims = [0] : (tensor<3xf32>) -> tensor<3x4xf32>
  %r = stablehlo.multiply %b, %arg1 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @broadcast_unsorted(%arg0: tensor<3x4xf32>) -> (tensor<4x2x3xf32>) {
  %r = stablehlo.broadcast_in_dim %arg0, dims = [2, 0] : (tensor<3x4xf32>) -> tensor<4x2x3xf32>
  return %r : tensor<4x2x3xf32>
}

// -----

func.func @broadcast_both(%arg0: tensor<3xf32>, %arg1: tensor<4xf32>) -> (tensor<3x4xf32>) {
  %a = stablehlo.broadcast_in_dim %arg0, dims = [0] : (tensor<3xf32>) -> tensor<3x4xf32>
  %b = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<4xf32>) -> tensor<3x4xf32>
  %r = stablehlo.add %a, %b : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @broadcast_alone(%arg0: tensor<f32>) -> (tensor<2x3xf32>) {
  %a = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  %r = stablehlo.exponential %a : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

func.func @dynamic_slice(%arg0: tensor<5x6xf32>, %arg1: tensor<i32>) -> (tensor<2x3xf32>) {
  %c = stablehlo.constant dense<1> : tensor<i32>
  %r = stablehlo.dynamic_slice %arg0, %arg1, %c, sizes = [2, 3] : (tensor<5x6xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

func.func @dynamic_update_slice(%arg0: tensor<5x6xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<i32>) -> (tensor<5x6xf32>) {
  %r = stablehlo.dynamic_update_slice %arg0, %arg1, %arg2, %arg2 : (tensor<5x6xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<5x6xf32>
  return %r : tensor<5x6xf32>
}

// -----

func.func @sum(%arg0: tensor<3x4xf32>) -> (tensor<3xf32>) {
  %i = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%arg0 init: %i) applies stablehlo.add across dimensions = [1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

func.func @sum_all(%arg0: tensor<3x4xf32>) -> (tensor<f32>) {
  %i = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%arg0 init: %i) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}

// -----

func.func @sum_from_one(%arg0: tensor<3x4xf32>) -> (tensor<3xf32>) {
  %i = stablehlo.constant dense<1.0> : tensor<f32>
  %r = stablehlo.reduce(%arg0 init: %i) applies stablehlo.add across dimensions = [1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

func.func @product(%arg0: tensor<3x4xf32>) -> (tensor<f32>) {
  %i = stablehlo.constant dense<1.0> : tensor<f32>
  %r = stablehlo.reduce(%arg0 init: %i) applies stablehlo.multiply across dimensions = [0, 1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}

// -----

func.func @maximum_of(%arg0: tensor<3x4xf32>) -> (tensor<4xf32>) {
  %i = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %r = stablehlo.reduce(%arg0 init: %i) applies stablehlo.maximum across dimensions = [0] : (tensor<3x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @maximum_from(%arg0: tensor<3x4xf32>) -> (tensor<4xf32>) {
  %i = stablehlo.constant dense<0.25> : tensor<f32>
  %r = stablehlo.reduce(%arg0 init: %i) applies stablehlo.maximum across dimensions = [0] : (tensor<3x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @minimum_of(%arg0: tensor<3x4xf32>) -> (tensor<4xf32>) {
  %i = stablehlo.constant dense<0x7F800000> : tensor<f32>
  %r = stablehlo.reduce(%arg0 init: %i) applies stablehlo.minimum across dimensions = [0] : (tensor<3x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @whole_sum(%arg0: tensor<3x4xi32>) -> (tensor<3xi32>) {
  %i = stablehlo.constant dense<0> : tensor<i32>
  %r = stablehlo.reduce(%arg0 init: %i) applies stablehlo.add across dimensions = [1] : (tensor<3x4xi32>, tensor<i32>) -> tensor<3xi32>
  return %r : tensor<3xi32>
}

// -----

func.func @all(%arg0: tensor<3x4xi1>) -> (tensor<i1>) {
  %i = stablehlo.constant dense<true> : tensor<i1>
  %r = stablehlo.reduce(%arg0 init: %i) applies stablehlo.and across dimensions = [0, 1] : (tensor<3x4xi1>, tensor<i1>) -> tensor<i1>
  return %r : tensor<i1>
}

// -----

func.func @any(%arg0: tensor<3x4xi1>) -> (tensor<3xi1>) {
  %i = stablehlo.constant dense<false> : tensor<i1>
  %r = stablehlo.reduce(%arg0 init: %i) applies stablehlo.or across dimensions = [1] : (tensor<3x4xi1>, tensor<i1>) -> tensor<3xi1>
  return %r : tensor<3xi1>
}

// -----

func.func @max_pool(%arg0: tensor<2x6x6x3xf32>) -> (tensor<2x3x3x3xf32>) {
  %i = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %r = "stablehlo.reduce_window"(%arg0, %i) <{window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>, padding = dense<[[0, 0], [0, 1], [0, 1], [0, 0]]> : tensor<4x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<2x6x6x3xf32>, tensor<f32>) -> tensor<2x3x3x3xf32>
  return %r : tensor<2x3x3x3xf32>
}

// -----

func.func @sum_pool(%arg0: tensor<2x6x6x3xf32>) -> (tensor<2x3x3x3xf32>) {
  %i = stablehlo.constant dense<0.0> : tensor<f32>
  %r = "stablehlo.reduce_window"(%arg0, %i) <{window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<2x6x6x3xf32>, tensor<f32>) -> tensor<2x3x3x3xf32>
  return %r : tensor<2x3x3x3xf32>
}

// -----

func.func @running_sum(%arg0: tensor<4x3xf32>) -> (tensor<4x3xf32>) {
  %i = stablehlo.constant dense<0.0> : tensor<f32>
  %r = "stablehlo.reduce_window"(%arg0, %i) <{window_dimensions = array<i64: 4, 1>, padding = dense<[[3, 0], [0, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  return %r : tensor<4x3xf32>
}

// -----

func.func @running_sum_backwards(%arg0: tensor<4x3xf32>) -> (tensor<4x3xf32>) {
  %i = stablehlo.constant dense<0.0> : tensor<f32>
  %r = "stablehlo.reduce_window"(%arg0, %i) <{window_dimensions = array<i64: 4, 1>, padding = dense<[[0, 3], [0, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  return %r : tensor<4x3xf32>
}

// -----

func.func @matmul(%arg0: tensor<3x4xf32>, %arg1: tensor<4x5xf32>) -> (tensor<3x5xf32>) {
  %r = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  return %r : tensor<3x5xf32>
}

// -----

func.func @matmul_turned(%arg0: tensor<4x3xf32>, %arg1: tensor<5x4xf32>) -> (tensor<3x5xf32>) {
  %r = stablehlo.dot_general %arg0, %arg1, contracting_dims = [0] x [1] : (tensor<4x3xf32>, tensor<5x4xf32>) -> tensor<3x5xf32>
  return %r : tensor<3x5xf32>
}

// -----

func.func @batched(%arg0: tensor<2x3x4xf32>, %arg1: tensor<2x5x4xf32>) -> (tensor<2x3x5xf32>) {
  %r = stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x3x4xf32>, tensor<2x5x4xf32>) -> tensor<2x3x5xf32>
  return %r : tensor<2x3x5xf32>
}

// -----

func.func @heads(%arg0: tensor<2x3x4x5xf32>, %arg1: tensor<2x6x4x5xf32>) -> (tensor<2x4x3x6xf32>) {
  %r = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x3x4x5xf32>, tensor<2x6x4x5xf32>) -> tensor<2x4x3x6xf32>
  return %r : tensor<2x4x3x6xf32>
}

// -----

func.func @dense_layer(%arg0: tensor<2x3x4xf32>, %arg1: tensor<4x5xf32>) -> (tensor<2x3x5xf32>) {
  %r = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0] : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
  return %r : tensor<2x3x5xf32>
}

// -----

func.func @two_contracted(%arg0: tensor<2x3x4xf32>, %arg1: tensor<3x4x5xf32>) -> (tensor<2x5xf32>) {
  %r = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1, 2] x [0, 1] : (tensor<2x3x4xf32>, tensor<3x4x5xf32>) -> tensor<2x5xf32>
  return %r : tensor<2x5xf32>
}

// -----

func.func @outer(%arg0: tensor<3xf32>, %arg1: tensor<4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.dot_general %arg0, %arg1, contracting_dims = [] x [] : (tensor<3xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @inner(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>) -> (tensor<f32>) {
  %r = stablehlo.dot_general %arg0, %arg1, contracting_dims = [0] x [0] : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  return %r : tensor<f32>
}

// -----

func.func @matrix_vector(%arg0: tensor<3x4xf32>, %arg1: tensor<4xf32>) -> (tensor<3xf32>) {
  %r = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

func.func @conv(%arg0: tensor<1x3x6x6xf32>, %arg1: tensor<4x3x3x3xf32>) -> (tensor<1x4x6x6xf32>) {
  %r = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  return %r : tensor<1x4x6x6xf32>
}

// -----

func.func @conv_channels_last(%arg0: tensor<2x6x6x3xf32>, %arg1: tensor<3x3x3x4xf32>) -> (tensor<2x3x3x4xf32>) {
  %r = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 1], [0, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x6x6x3xf32>, tensor<3x3x3x4xf32>) -> tensor<2x3x3x4xf32>
  return %r : tensor<2x3x3x4xf32>
}

// -----

func.func @conv_dilated_groups(%arg0: tensor<1x7x4xf32>, %arg1: tensor<3x2x6xf32>) -> (tensor<1x3x6xf32>) {
  %r = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {rhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<1x7x4xf32>, tensor<3x2x6xf32>) -> tensor<1x3x6xf32>
  return %r : tensor<1x3x6xf32>
}

// -----

func.func @embedding(%arg0: tensor<5x3xf32>, %arg1: tensor<2x4x1xi32>) -> (tensor<2x4x3xf32>) {
  %r = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 3>}> : (tensor<5x3xf32>, tensor<2x4x1xi32>) -> tensor<2x4x3xf32>
  return %r : tensor<2x4x3xf32>
}

// -----

func.func @columns(%arg0: tensor<3x5xf32>, %arg1: tensor<4x1xi32>) -> (tensor<3x4xf32>) {
  %r = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 3, 1>}> : (tensor<3x5xf32>, tensor<4x1xi32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @pairs(%arg0: tensor<4x5x3xf32>, %arg1: tensor<6x2xi32>) -> (tensor<6x3xf32>) {
  %r = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1, 3>}> : (tensor<4x5x3xf32>, tensor<6x2xi32>) -> tensor<6x3xf32>
  return %r : tensor<6x3xf32>
}

// -----

func.func @along_axis(%arg0: tensor<4x5xf32>, %arg1: tensor<4x2x1xi32>) -> (tensor<4x2xf32>) {
  %r = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>}> : (tensor<4x5xf32>, tensor<4x2x1xi32>) -> tensor<4x2xf32>
  return %r : tensor<4x2xf32>
}

// -----

func.func @tan(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.tan %arg0 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @bytes(%arg0: tensor<2x3xui8>) -> (tensor<3x2xf32>, tensor<2x3xui8>, tensor<3x2xui8>) {
  %h = stablehlo.constant dense<255.0> : tensor<3x2xf32>
  %t = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x3xui8>) -> tensor<3x2xui8>
  %f = stablehlo.convert %t : (tensor<3x2xui8>) -> tensor<3x2xf32>
  %r = stablehlo.divide %f, %h : tensor<3x2xf32>
  %b = stablehlo.convert %f : (tensor<3x2xf32>) -> tensor<3x2xui8>
  return %r, %arg0, %b : tensor<3x2xf32>, tensor<2x3xui8>, tensor<3x2xui8>
}
