(** Tensors of any rank and size, and the operations on them. This file holds definitions only; all of them are trusted.

    A tensor is a function from an index to a real number, with a size along every axis. Axes are counted from the right, from 0, and
    all axes beyond its rank have size 1. An axis of size 1 is not read from the index, so a tensor is defined at the indices of every
    shape that it broadcasts to: broadcasting is no operation. *)
Require Import Reals List Arith Lia ZArith Lra.
From Coquelicot Require Hierarchy RInt.
Import ListNotations.
Open Scope R_scope.

Definition index := nat -> nat.
Definition sizes := nat -> nat.

(** [typed]: the shapes of its parts fit. [dom]: it has a value there. [el]: the value. *)
Record tensor := Tensor { shape : sizes; typed : Prop; dom : index -> Prop; el : index -> R }.
Record mask := Mask { mshape : sizes; mtyped : Prop; mdom : index -> Prop; holds : index -> bool }.

(** * Indices *)
Definition upd (i : index) (a n : nat) : index := fun b => if b =? a then n else i b.
Definition clip (s : sizes) (i : index) : index := fun a => if s a =? 1 then 0%nat else i a.
Definition swap (i : index) : index := fun a => match a with 0 => i 1%nat | 1 => i 0%nat | _ => i a end.
Definition mem (a : nat) (k : list nat) : bool := existsb (Nat.eqb a) k.

(** The index lies in the shape, or is not read. *)
Definition within (s : sizes) (i : index) : Prop := forall a, s a = 1%nat \/ (i a < s a)%nat.

Definition joined (m n : nat) : nat := if m =? 1 then n else m.
Definition bcast (s t : sizes) : sizes := fun a => joined (s a) (t a).
Definition fits (s t : sizes) : Prop := forall a, s a = t a \/ s a = 1%nat \/ t a = 1%nat.

(** All indices that agree with i outside the axes k, and run over the sizes along them. *)
Fixpoint box (k : list nat) (s : sizes) (i : index) : list index :=
  match k with
  | [] => [i]
  | a :: rest => flat_map (fun n => box rest s (upd i a n)) (seq 0 (s a))
  end.

(** * Sums, products, greatest and least values over a list *)
Fixpoint Rsum {A} (L : list A) (f : A -> R) : R := match L with [] => 0 | x :: r => f x + Rsum r f end.
Fixpoint Rprod {A} (L : list A) (f : A -> R) : R := match L with [] => 1 | x :: r => f x * Rprod r f end.
Fixpoint Rgreatest {A} (L : list A) (f : A -> R) : R :=
  match L with [] => 0 | [x] => f x | x :: r => Rmax (f x) (Rgreatest r f) end.
Definition Rleast {A} (L : list A) (f : A -> R) : R := - Rgreatest L (fun x => - f x).

(** * Comparisons *)
Definition Reqb (x y : R) : bool := if Req_EM_T x y then true else false.
Definition Rltb (x y : R) : bool := if Rlt_dec x y then true else false.
Definition Rleb (x y : R) : bool := if Rle_dec x y then true else false.

(** * Powers: x^y for positive x, 0^y for y >= 0, and whole powers of negative x *)
Definition whole (y : R) : Prop := exists n : Z, y = IZR n.
Definition pow_dom (x y : R) : Prop := 0 < x \/ (x = 0 /\ 0 <= y) \/ (x < 0 /\ whole y).
Definition Rpow (x y : R) : R :=
  if Rlt_dec 0 x then exp (y * ln x)
  else if Req_EM_T x 0 then (if Req_EM_T y 0 then 1 else 0)
  else powerRZ x (Int_part y).
Definition floor (x : R) : R := IZR (Int_part x).

(** * Functions that are integrals *)
Definition integral (f : R -> R) (a b : R) : R := RInt.RInt (V := Hierarchy.R_CompleteNormedModule) f a b.
Definition erf (x : R) : R := 2 / sqrt PI * integral (fun t => exp (- (t * t))) 0 x.
Definition bessel_i0 (x : R) : R := integral (fun t => exp (x * cos (PI * t))) 0 1.

(** * Tensors that a rule takes *)
Definition capture (s : sizes) (f : index -> R) : tensor := Tensor s True (fun _ => True) (fun i => f (clip s i)).
Definition mask_capture (s : sizes) (f : index -> bool) : mask := Mask s True (fun _ => True) (fun i => f (clip s i)).
Definition number (c : R) : tensor := Tensor (fun _ => 1%nat) True (fun _ => True) (fun _ => c).

(** * Operations on elements *)
Definition map1 (f : R -> R) (x : tensor) : tensor := Tensor (shape x) (typed x) (dom x) (fun i => f (el x i)).
Definition map1_on (D : R -> Prop) (f : R -> R) (x : tensor) : tensor :=
  Tensor (shape x) (typed x) (fun i => dom x i /\ D (el x i)) (fun i => f (el x i)).
Definition map2 (f : R -> R -> R) (x y : tensor) : tensor :=
  Tensor (bcast (shape x) (shape y)) (typed x /\ typed y /\ fits (shape x) (shape y))
    (fun i => dom x i /\ dom y i) (fun i => f (el x i) (el y i)).
Definition map2_on (D : R -> R -> Prop) (f : R -> R -> R) (x y : tensor) : tensor :=
  Tensor (bcast (shape x) (shape y)) (typed x /\ typed y /\ fits (shape x) (shape y))
    (fun i => dom x i /\ dom y i /\ D (el x i) (el y i)) (fun i => f (el x i) (el y i)).

Definition t_add := map2 Rplus.
Definition t_sub := map2 Rminus.
Definition t_mul := map2 Rmult.
Definition t_div := map2_on (fun _ y => y <> 0) Rdiv.
Definition t_neg := map1 Ropp.
Definition t_abs := map1 Rabs.
Definition t_exp := map1 exp.
Definition t_log := map1_on (fun x => 0 < x) ln.
Definition t_sqrt := map1_on (fun x => 0 <= x) sqrt.
Definition t_pow := map2_on pow_dom Rpow.
Definition t_sin := map1 sin.
Definition t_cos := map1 cos.
Definition t_atan := map1 atan.
Definition t_asin := map1_on (fun x => -1 <= x <= 1) asin.
Definition t_acos := map1_on (fun x => -1 <= x <= 1) acos.
Definition t_floor := map1 floor.
Definition t_erf := map1 erf.
Definition t_i0 := map1 bessel_i0.
Definition t_maximum := map2 Rmax.
Definition t_minimum := map2 Rmin.

(** * Conditions *)
Definition compare (f : R -> R -> bool) (x y : tensor) : mask :=
  Mask (bcast (shape x) (shape y)) (typed x /\ typed y /\ fits (shape x) (shape y))
    (fun i => dom x i /\ dom y i) (fun i => f (el x i) (el y i)).
Definition t_eq := compare Reqb.
Definition t_ne := compare (fun x y => negb (Reqb x y)).
Definition t_lt := compare Rltb.
Definition t_le := compare Rleb.
Definition t_gt := compare (fun x y => Rltb y x).
Definition t_ge := compare (fun x y => Rleb y x).
Definition connect (f : bool -> bool -> bool) (p q : mask) : mask :=
  Mask (bcast (mshape p) (mshape q)) (mtyped p /\ mtyped q /\ fits (mshape p) (mshape q))
    (fun i => mdom p i /\ mdom q i) (fun i => f (holds p i) (holds q i)).
Definition m_and := connect andb.
Definition m_or := connect orb.
Definition m_not (p : mask) : mask := Mask (mshape p) (mtyped p) (mdom p) (fun i => negb (holds p i)).
(** Only the branch that is taken needs a value. *)
Definition t_where (p : mask) (x y : tensor) : tensor :=
  Tensor (bcast (mshape p) (bcast (shape x) (shape y)))
    (mtyped p /\ typed x /\ typed y /\ fits (shape x) (shape y) /\ fits (mshape p) (bcast (shape x) (shape y)))
    (fun i => mdom p i /\ (if holds p i then dom x i else dom y i))
    (fun i => if holds p i then el x i else el y i).
Definition as_number (p : mask) : tensor := Tensor (mshape p) (mtyped p) (mdom p) (fun i => if holds p i then 1 else 0).
Definition as_mask (x : tensor) : mask := Mask (shape x) (typed x) (dom x) (fun i => negb (Reqb (el x i) 0)).
Definition m_where (p x y : mask) : mask :=
  Mask (bcast (mshape p) (bcast (mshape x) (mshape y)))
    (mtyped p /\ mtyped x /\ mtyped y /\ fits (mshape x) (mshape y) /\ fits (mshape p) (bcast (mshape x) (mshape y)))
    (fun i => mdom p i /\ (if holds p i then mdom x i else mdom y i))
    (fun i => if holds p i then holds x i else holds y i).

(** * Reductions along the axes k, which stay with size 1 *)
Definition reduced (k : list nat) (s : sizes) : sizes := fun a => if mem a k then 1%nat else s a.
Definition reduce (combine : list index -> (index -> R) -> R) (k : list nat) (x : tensor) : tensor :=
  Tensor (reduced k (shape x)) (typed x) (fun i => forall j, In j (box k (shape x) i) -> dom x j)
    (fun i => combine (box k (shape x) i) (el x)).
Definition t_sum := reduce Rsum.
Definition t_prod := reduce Rprod.
(** Nothing is the greatest of no elements. *)
Definition extreme (combine : list index -> (index -> R) -> R) (k : list nat) (x : tensor) : tensor :=
  Tensor (reduced k (shape x)) (typed x)
    (fun i => box k (shape x) i <> [] /\ forall j, In j (box k (shape x) i) -> dom x j)
    (fun i => combine (box k (shape x) i) (el x)).
Definition t_amax := extreme Rgreatest.
Definition t_amin := extreme Rleast.
Definition count (k : list nat) (s : sizes) : R := fold_right (fun a n => INR (s a) * n) 1 k.
Definition t_size (k : list nat) (x : tensor) : tensor := Tensor (fun _ => 1%nat) (typed x) (fun _ => True) (fun _ => count k (shape x)).

(** * Contraction: the last two axes are 1 and 0 *)
Definition t_matmul (a b : tensor) : tensor :=
  Tensor (fun d => match d with 0 => shape b 0%nat | 1 => shape a 1%nat | _ => joined (shape a d) (shape b d) end)
    (typed a /\ typed b /\ shape a 0%nat = shape b 1%nat /\
     forall d, (2 <= d)%nat -> shape a d = shape b d \/ shape a d = 1%nat \/ shape b d = 1%nat)
    (fun i => forall c, In c (seq 0 (shape a 0%nat)) -> dom a (upd i 0 c) /\ dom b (upd i 1 c))
    (fun i => Rsum (seq 0 (shape a 0%nat)) (fun c => el a (upd i 0 c) * el b (upd i 1 c))).

(** * Movement *)
Definition t_transpose (x : tensor) : tensor :=
  Tensor (swap (shape x)) (typed x) (fun i => dom x (swap i)) (fun i => el x (swap i)).
Definition drop (q : nat) (f : nat -> nat) : nat -> nat := fun a => if a <? q then f a else f (S a).
Definition insert (q v : nat) (f : nat -> nat) : nat -> nat :=
  fun a => if a <? q then f a else if a =? q then v else f (pred a).
Definition t_unsqueeze (q : nat) (x : tensor) : tensor :=
  Tensor (insert q 1 (shape x)) (typed x) (fun i => dom x (drop q i)) (fun i => el x (drop q i)).
Definition t_squeeze (q : nat) (x : tensor) : tensor :=
  Tensor (drop q (shape x)) (typed x /\ shape x q = 1%nat) (fun i => dom x (insert q 0 i)) (fun i => el x (insert q 0 i)).

(** The elements along the axes k in the opposite order. *)
Definition turned (k : list nat) (s : sizes) (i : index) : index := fun a => if mem a k then (s a - 1 - i a)%nat else i a.
Definition t_reverse (k : list nat) (x : tensor) : tensor :=
  Tensor (shape x) (typed x) (fun i => dom x (turned k (shape x) i)) (fun i => el x (turned k (shape x) i)).

(** A bound, or a number of elements: one number, which is whole. *)
Definition bound (t : tensor) : Z := Int_part (el t (fun _ => 0%nat)).
Definition is_bound (t : tensor) : Prop :=
  typed t /\ dom t (fun _ => 0%nat) /\ (forall a, shape t a = 1%nat) /\ el t (fun _ => 0%nat) = IZR (bound t).
(** The position along an axis of n elements. *)
Definition along (q n : nat) (i : index) : Z := if n =? 1 then 0%Z else Z.of_nat (i q).
Definition resized (q n : nat) (s : sizes) : sizes := fun a => if a =? q then n else s a.

(** Elements start, start + step, … before stop. Beyond the tensor there are none. *)
Definition sliced (start stop step : Z) : nat := Z.to_nat ((stop - start + step - 1) / step).
Definition t_slice (q : nat) (start stop step x : tensor) : tensor :=
  let n := sliced (bound start) (bound stop) (bound step) in
  let from := fun i => upd i q (Z.to_nat (bound start + bound step * along q n i)) in
  Tensor (resized q n (shape x))
    (typed x /\ (is_bound start /\ is_bound stop /\ is_bound step) /\
     (0 <= bound start /\ bound start <= bound stop /\ bound stop <= Z.of_nat (shape x q) /\ 1 <= bound step)%Z)
    (fun i => dom x (from i)) (fun i => el x (from i)).

(** x, then y: their other sizes are equal. *)
Definition t_concat (q : nat) (x y : tensor) : tensor :=
  let n := (shape x q + shape y q)%nat in
  let first := fun i => (along q n i <? Z.of_nat (shape x q))%Z in
  let behind := fun i => upd i q (Z.to_nat (along q n i - Z.of_nat (shape x q))) in
  Tensor (resized q n (shape x)) (typed x /\ typed y /\ forall a, a <> q -> shape x a = shape y a)
    (fun i => if first i then dom x (upd i q (Z.to_nat (along q n i))) else dom y (behind i))
    (fun i => if first i then el x (upd i q (Z.to_nat (along q n i))) else el y (behind i)).

(** `low` elements of a value before x, and `high` after it; negative numbers cut, no more than there is. *)
Definition t_pad (q : nat) (low high value x : tensor) : tensor :=
  let n := Z.to_nat (bound low + Z.of_nat (shape x q) + bound high) in
  let at_x := fun i => (along q n i - bound low)%Z in
  let inside := fun i => ((0 <=? at_x i) && (at_x i <? Z.of_nat (shape x q)))%Z%bool in
  Tensor (resized q n (shape x))
    (typed x /\ (is_bound low /\ is_bound high /\ typed value /\ forall a, shape value a = 1%nat) /\
     (0 <= Z.of_nat (shape x q) + bound low /\ 0 <= Z.of_nat (shape x q) + bound high /\
      0 <= Z.of_nat (shape x q) + bound low + bound high)%Z)
    (fun i => if inside i then dom x (upd i q (Z.to_nat (at_x i))) else dom value i)
    (fun i => if inside i then el x (upd i q (Z.to_nat (at_x i))) else el value i).

(** x, which has size 1 along the axis, n times. *)
Definition t_repeat (q : nat) (n x : tensor) : tensor :=
  Tensor (resized q (Z.to_nat (bound n)) (shape x)) (typed x /\ is_bound n /\ (1 <= bound n)%Z /\ shape x q = 1%nat) (dom x) (el x).

(** * What a rule claims: wherever the left side is defined, the right side is, and has the same value. A side may have size 1 where
    the other one does not vary. *)
Definition refines (left right : tensor) : Prop :=
  (forall a, shape right a = shape left a \/ shape right a = 1%nat) /\
  forall i, within (shape left) i -> dom left i -> dom right i /\ el right i = el left i.

(** A condition of a rule: its expressions have values and it is true, for every element. *)
Definition always (p : mask) : Prop := mtyped p /\ forall i, within (mshape p) i -> mdom p i /\ holds p i = true.
Definition free (k : list nat) (s : sizes) : Prop := forall a, In a k -> s a = 1%nat.
Definition same_size (k : list nat) (s t : sizes) : Prop := forall a, In a k -> s a = t a.
Definition rank_at_most (n : nat) (s : sizes) : Prop := forall a, (n <= a)%nat -> s a = 1%nat.
Definition nonempty (s : sizes) : Prop := forall a, s a <> 0%nat.
