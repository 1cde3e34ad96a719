// Operations that torch lacks, or hnfc does not translate: they stay as they are.

func.func @cbrt(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  %r = stablehlo.cbrt %arg0 : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @shift_right_logical(%arg0: tensor<4xi32>, %arg1: tensor<4xi32>) -> (tensor<4xi32>) {
  %r = stablehlo.shift_right_logical %arg0, %arg1 : tensor<4xi32>
  return %r : tensor<4xi32>
}

// -----

func.func @interior_pad(%arg0: tensor<3xf32>) -> (tensor<5xf32>) {
  %v = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.pad %arg0, %v, low = [0], high = [0], interior = [1] : (tensor<3xf32>, tensor<f32>) -> tensor<5xf32>
  return %r : tensor<5xf32>
}

// -----

func.func @unsigned(%arg0: tensor<4xui8>) -> (tensor<4xui8>, tensor<4xi1>) {
  %h = stablehlo.constant dense<200> : tensor<4xui8>
  %r = stablehlo.maximum %arg0, %h : tensor<4xui8>
  %c = stablehlo.compare GT, %r, %arg0, UNSIGNED : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xi1>
  return %r, %c : tensor<4xui8>, tensor<4xi1>
}

// -----

func.func @loop(%arg0: tensor<4xf32>) -> (tensor<4xf32>) {
  %z = stablehlo.constant dense<0> : tensor<i32>
  %e = stablehlo.exponential %arg0 : tensor<4xf32>
  %r:2 = stablehlo.while(%i = %z, %x = %arg0) : tensor<i32>, tensor<4xf32> cond {
    %n = stablehlo.constant dense<3> : tensor<i32>
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %y = stablehlo.add %x, %e : tensor<4xf32>
    stablehlo.return %j, %y : tensor<i32>, tensor<4xf32>
  }
  return %r#1 : tensor<4xf32>
}

// -----

func.func @complex(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>) -> (tensor<4xf32>) {
  %c = stablehlo.complex %arg0, %arg1 : tensor<4xcomplex<f32>>
  %d = stablehlo.multiply %c, %c : tensor<4xcomplex<f32>>
  %m = stablehlo.abs %d : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  %r = stablehlo.exponential %m : tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @branch(%arg0: tensor<i1>, %arg1: tensor<4xf32>) -> (tensor<4xf32>) {
  %e = stablehlo.exponential %arg1 : tensor<4xf32>
  %r = "stablehlo.if"(%arg0) ({
    %a = stablehlo.add %e, %arg1 : tensor<4xf32>
    stablehlo.return %a : tensor<4xf32>
  }, {
    stablehlo.return %e : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @four_bits(%arg0: tensor<4xi32>) -> (tensor<4xi32>) {
  %n = stablehlo.convert %arg0 : (tensor<4xi32>) -> tensor<4xi4>
  %s = stablehlo.add %n, %n : tensor<4xi4>
  %r = stablehlo.convert %s : (tensor<4xi4>) -> tensor<4xi32>
  return %r : tensor<4xi32>
}
