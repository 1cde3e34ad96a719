(** Identities of roots, logarithms and inverse functions, with the conditions under which they hold. *)
Require Import Reals Lra Psatz.
From Hnf Require Import Tensors Scalars.
Open Scope R_scope.

Lemma acosh_by_half x : 1 <= x ->
  2 * ln (sqrt ((x - 1) / 2) + sqrt (sqrt ((x - 1) / 2) * sqrt ((x - 1) / 2) + 1)) = ln (x + sqrt (x * x - 1)).
Proof.
  intros H. set (u := sqrt ((x - 1) / 2)). assert (U : u * u = (x - 1) / 2) by (apply sqrt_sqrt; lra). pose proof (sqrt_pos ((x - 1) / 2)).
  fold u in H0. set (w := sqrt (u * u + 1)). assert (W : w * w = u * u + 1) by (apply sqrt_sqrt; nra).
  assert (0 < w) by (apply sqrt_lt_R0; nra). replace (sqrt (x * x - 1)) with (2 * u * w).
  - replace (x + 2 * u * w) with ((u + w) * (u + w)) by nra. rewrite ln_mult by lra. ring.
  - symmetry. apply equal_by_squares; [apply sqrt_pos|nra|]. rewrite sqrt_sqrt by nra. nra.
Qed.

Lemma root_of_square_less_product a b c : 0 <= a * a - b * c -> 0 <= b * c ->
  sqrt (Rabs a - sqrt (Rabs b) * sqrt (Rabs c)) * sqrt (Rabs a + sqrt (Rabs b) * sqrt (Rabs c)) = sqrt (a * a - b * c).
Proof.
  intros H K. rewrite <- sqrt_of_product by easy. set (p := sqrt (b * c)). assert (P : p * p = b * c) by (apply sqrt_sqrt; easy).
  assert (0 <= p) by apply sqrt_pos. pose proof (Rabs_pos a). assert (A : Rabs a * Rabs a = a * a) by (rewrite <- Rabs_mult; apply Rabs_pos_eq; nra).
  assert (p <= Rabs a) by (destruct (Rle_dec p (Rabs a)); [easy|nra]). rewrite <- sqrt_mult by lra. f_equal. nra.
Qed.

(** atanh a - atanh b as one atanh. *)
Lemma atanh_domain a : 1 - a <> 0 -> 0 < (1 + a) / (1 - a) -> -1 < a < 1.
Proof.
  intros N H. assert (I : (1 - a) * / (1 - a) = 1) by (apply Rinv_r; lra). unfold Rdiv in H.
  set (v := / (1 - a)) in *. assert (0 < v) by (destruct (Rlt_dec 0 v); [easy|]; exfalso; nra). nra.
Qed.
Section Difference.
Variables a b : R.
Hypotheses (Na : 1 - a <> 0) (Ha : 0 < (1 + a) / (1 - a)) (Nb : 1 - b <> 0) (Hb : 0 < (1 + b) / (1 - b)).
Lemma between : 0 < 1 - a /\ 0 < 1 + a /\ 0 < 1 - b /\ 0 < 1 + b /\ 0 < 1 - a * b.
Proof. pose proof (atanh_domain a Na Ha). pose proof (atanh_domain b Nb Hb). nra. Qed.
Lemma below_one : 1 - (a - b) / (1 - a * b) = (1 - a) * (1 + b) / (1 - a * b).
Proof. pose proof between. field. lra. Qed.
Lemma above_minus_one : 1 + (a - b) / (1 - a * b) = (1 + a) * (1 - b) / (1 - a * b).
Proof. pose proof between. field. lra. Qed.
Lemma atanhs_nonzero : 1 - (a - b) / (1 - a * b) <> 0.
Proof.
  pose proof between. rewrite below_one. apply Rgt_not_eq. red. apply Rdiv_lt_0_compat; [apply Rmult_lt_0_compat|]; lra.
Qed.
Lemma atanhs_quotient : (1 + (a - b) / (1 - a * b)) / (1 - (a - b) / (1 - a * b)) = (1 + a) / (1 - a) / ((1 + b) / (1 - b)).
Proof. pose proof between. rewrite below_one, above_minus_one. field. repeat split; lra. Qed.
Lemma atanhs_positive : 0 < (1 + (a - b) / (1 - a * b)) / (1 - (a - b) / (1 - a * b)).
Proof. rewrite atanhs_quotient. now apply Rdiv_lt_0_compat. Qed.
Lemma atanhs_subtracted : ln ((1 + (a - b) / (1 - a * b)) / (1 - (a - b) / (1 - a * b))) / 2 = ln ((1 + a) / (1 - a)) / 2 - ln ((1 + b) / (1 - b)) / 2.
Proof. rewrite atanhs_quotient, ln_div by easy. field. Qed.
End Difference.

(** min(a, 0) - log(1 + e^-|a|) is -log(1 + e^-a). *)
Lemma negative_part a : Rmin a 0 = ln (1 + exp (- Rabs a)) - ln (1 + exp (- a)).
Proof.
  destruct (Rle_dec a 0).
  - rewrite Rmin_left, Rabs_left1, Ropp_involutive by easy. pose proof (exp_pos a). pose proof (exp_pos (- a)).
    apply exp_inv. rewrite exp_minus, !exp_ln by lra. rewrite exp_Ropp. field. split; [apply exp_nonzero|apply tanh_bound].
  - rewrite Rmin_right, Rabs_pos_eq by lra. ring.
Qed.

(** The cube root, with the sign of its argument. *)
Section CubeRoots.
Let root a := (if Rltb a 0 then -1 else 1) * Rpow (Rabs a) (1 / 3).
Lemma cube_root_cubed a : root a * root a * root a = a.
Proof.
  unfold root. destruct (Req_dec a 0) as [->|N].
  - replace (Rpow (Rabs 0) (1 / 3)) with 0; [ring|]. rewrite Rabs_R0. unfold Rpow.
    destruct (Rlt_dec 0 0); [lra|]. destruct (Req_EM_T 0 0); [|lra]. destruct (Req_EM_T (1 / 3) 0); lra.
  - pose proof (Rabs_pos_lt a N). rewrite Rpow_positive by easy. set (e := exp (1 / 3 * ln (Rabs a))).
    assert (E : e * e * e = Rabs a).
    { unfold e. rewrite <- !exp_plus. replace (1 / 3 * ln (Rabs a) + 1 / 3 * ln (Rabs a) + 1 / 3 * ln (Rabs a)) with (ln (Rabs a)) by field.
      now apply exp_ln. }
    destruct (Rltb a 0) eqn:B; [apply Rltb_true in B; rewrite Rabs_left in E by easy|apply Rltb_false in B; rewrite Rabs_pos_eq in E by easy]; nra.
Qed.
Lemma cube_roots_positive a b : 0 < a * b -> 0 < root a * (root a + root b) + root b * root b.
Proof.
  intros H. rewrite <- (cube_root_cubed a), <- (cube_root_cubed b) in H. set (p := root a) in *. set (q := root b) in *.
  assert (p <> 0) by (intros E; rewrite E in H; lra). assert (0 < p * p) by nra. nra.
Qed.
Lemma cube_roots_subtracted a b : 0 < a * b -> (a - b) / (root a * (root a + root b) + root b * root b) = root a - root b.
Proof.
  intros H. pose proof (cube_roots_positive a b H). rewrite <- (cube_root_cubed a) at 1. rewrite <- (cube_root_cubed b) at 1. field. lra.
Qed.
End CubeRoots.

Ltac known_identity := match goal with
  | H : 0 <= ?x * ?x - 1, K : 0 < ?x + sqrt (?x * ?x - 1) |- _ = _ => exact (acosh_by_half x (acosh_domain x H K))
  | |- sqrt _ * sqrt _ = sqrt _ => apply root_of_square_less_product; assumption
  | |- 1 - (?a - ?b) / (1 - ?a * ?b) <> 0 => apply atanhs_nonzero; assumption
  | |- 0 < (1 + (?a - ?b) / (1 - ?a * ?b)) / _ => apply atanhs_positive; assumption
  | |- ln _ / 2 = ln _ / 2 - ln _ / 2 => apply atanhs_subtracted; assumption
  | H : 0 < ?a * ?b |- _ <> 0 => apply Rgt_not_eq; red; apply (cube_roots_positive a b H)
  | H : 0 < ?a * ?b |- _ = _ => apply (cube_roots_subtracted a b H)
  end.

Ltac log_sigmoids := match goal with |- context [Rmin ?a 0] => match goal with |- context [exp (- Rabs a)] => idtac end end;
  repeat match goal with |- context [Rmin ?a 0] => rewrite (negative_part a) end;
  repeat match goal with |- context [if ?b then _ else _] => destruct b eqn:? end; booleans; subst;
  first [ring | powers; rewrite ?ln_1; by_field].
