// RUN: hnfc-opt %s -p 'import-torch' | filecheck %s --check-prefix=NUM
// RUN: hnfc-opt %s -p 'import-torch,canonicalize-movement,rewrite{group=stability},export-torch' | filecheck %s --check-prefix=TORCH
// What hnfc does not know is a wall: rules work before and behind it, and it comes out as it went in.

func.func @main(%x: !torch.vtensor<[2,3],f32>) -> !torch.vtensor<[2,3],f32> {
  %one = torch.constant.int 1
  %a = torch.aten.add.Scalar %x, %one, %one : !torch.vtensor<[2,3],f32>, !torch.int, !torch.int -> !torch.vtensor<[2,3],f32>
  %l = torch.aten.log %a : !torch.vtensor<[2,3],f32> -> !torch.vtensor<[2,3],f32>
  %o = torch.operator "strange.thing"(%l, %one) {color = "red"} : (!torch.vtensor<[2,3],f32>, !torch.int) -> !torch.vtensor<[2,3],f32>
  %b = torch.aten.add.Scalar %o, %one, %one : !torch.vtensor<[2,3],f32>, !torch.int, !torch.int -> !torch.vtensor<[2,3],f32>
  %r = torch.aten.log %b : !torch.vtensor<[2,3],f32> -> !torch.vtensor<[2,3],f32>
  return %r : !torch.vtensor<[2,3],f32>
}
// NUM: num.log
// NUM: num.opaque "torch.operator"
// NUM-SAME: strange.thing
// NUM: num.log
// TORCH: %[[L:.*]] = torch.aten.log1p %arg0
// TORCH: %[[O:.*]] = torch.operator "strange.thing"(%[[L]], %{{.*}}) {color = "red"}
// TORCH-NEXT: torch.aten.log1p %[[O]]
