(** Facts about numbers, and tactics for goals without tensors. *)
Require Import Reals List Arith Lia Lra Psatz Nsatz ZArith.
From Hnf Require Import Tensors Sums Special Indices Shapes.
Import ListNotations.
Open Scope R_scope.

Lemma Reqb_true x y : Reqb x y = true <-> x = y.
Proof. unfold Reqb. destruct (Req_EM_T x y); split; easy. Qed.
Lemma Rltb_true x y : Rltb x y = true <-> x < y.
Proof. unfold Rltb. destruct (Rlt_dec x y); split; easy. Qed.
Lemma Rleb_true x y : Rleb x y = true <-> x <= y.
Proof. unfold Rleb. destruct (Rle_dec x y); split; easy. Qed.
Lemma Reqb_false x y : Reqb x y = false <-> x <> y.
Proof. unfold Reqb. destruct (Req_EM_T x y); split; easy. Qed.
Lemma Rltb_false x y : Rltb x y = false <-> y <= x.
Proof. unfold Rltb. destruct (Rlt_dec x y); split; intros; try easy; lra. Qed.
Lemma Rleb_false x y : Rleb x y = false <-> y < x.
Proof. unfold Rleb. destruct (Rle_dec x y); split; intros; try easy; lra. Qed.

Lemma exp_minus a b : exp (a - b) = exp a * / exp b.
Proof. unfold Rminus. now rewrite exp_plus, exp_Ropp. Qed.
Lemma exp_twice a : exp (2 * a) = exp a * exp a.
Proof. rewrite <- exp_plus. f_equal. ring. Qed.
Lemma exp_by_half a : exp a = exp (a / 2) * exp (a / 2).
Proof. rewrite <- exp_plus. f_equal. field. Qed.
Lemma sin_by_half a : sin a = 2 * sin (a / 2) * cos (a / 2).
Proof. replace a with (2 * (a / 2)) at 1 by field. apply sin_2a. Qed.
Lemma cos_by_half a : cos a = cos (a / 2) * cos (a / 2) - sin (a / 2) * sin (a / 2).
Proof. replace a with (2 * (a / 2)) at 1 by field. apply cos_2a. Qed.
Lemma exp_nonzero a : exp a <> 0.
Proof. apply Rgt_not_eq, exp_pos. Qed.
Lemma sin_cos_squares a : sin a * sin a + cos a * cos a = 1.
Proof. apply (sin2_cos2 a). Qed.
Lemma ln_div a b : 0 < a -> 0 < b -> ln (a / b) = ln a - ln b.
Proof. intros. unfold Rdiv. rewrite ln_mult, ln_Rinv; [ring|easy|easy|now apply Rinv_0_lt_compat]. Qed.
Lemma Rpow_positive x y : 0 < x -> Rpow x y = exp (y * ln x).
Proof. intros. unfold Rpow. now destruct (Rlt_dec 0 x). Qed.
Lemma square_nonneg a : 0 <= a * a.
Proof. apply Rle_0_sqr. Qed.
Lemma product_nonzero_l a b : a * b <> 0 -> a <> 0.
Proof. intros H ->. apply H. ring. Qed.
Lemma quotient_nonzero a b : a / b <> 0 -> a <> 0.
Proof. intros H ->. apply H. unfold Rdiv. ring. Qed.
Lemma product_nonzero_r a b : a * b <> 0 -> b <> 0.
Proof. intros H ->. apply H. ring. Qed.
Lemma tanh_bound a : exp a + 1 <> 0.
Proof. assert (0 < exp a) by apply exp_pos. lra. Qed.

Lemma equal_by_squares x y : 0 <= x -> 0 <= y -> x * x = y * y -> x = y.
Proof. intros. apply Rsqr_inj; easy. Qed.
Lemma double_inj x y : 2 * x = 2 * y -> x = y.
Proof. lra. Qed.
Lemma exp_product_sum a b c : exp (a * (b + c)) = exp (a * b) * exp (a * c).
Proof. rewrite <- exp_plus. f_equal. ring. Qed.
Lemma exp_product_minus a b c : exp (a * (b - c)) = exp (a * b) * / exp (a * c).
Proof. rewrite <- exp_minus. f_equal. ring. Qed.
Lemma exp_product_opp a b : exp (a * - b) = / exp (a * b).
Proof. rewrite <- exp_Ropp. f_equal. ring. Qed.
Lemma exp_opp_product a b : exp (- a * b) = / exp (a * b).
Proof. rewrite <- exp_Ropp. f_equal. ring. Qed.
Lemma pow_dom_positive x y : 0 < x -> pow_dom x y.
Proof. now left. Qed.
Lemma inverse_fact a : a <> 0 -> a * / a = 1.
Proof. apply Rinv_r. Qed.
Lemma sqrt_bound a : 0 <= a -> sqrt a * sqrt a = a.
Proof. apply sqrt_sqrt. Qed.
Lemma exp_minus_twice a : exp (-2 * a) = / exp a * / exp a.
Proof. rewrite <- exp_Ropp, <- exp_plus. f_equal. ring. Qed.
Lemma greatest_positive_l a b : 0 < a -> 0 < Rmax a b.
Proof. intros. apply Rlt_le_trans with a; [easy|apply Rmax_l]. Qed.
Lemma greatest_positive_r a b : 0 < b -> 0 < Rmax a b.
Proof. intros. apply Rlt_le_trans with b; [easy|apply Rmax_r]. Qed.
Lemma greatest_nonneg_l a b : 0 <= a -> 0 <= Rmax a b.
Proof. intros. apply Rle_trans with a; [easy|apply Rmax_l]. Qed.
Lemma greatest_nonneg_r a b : 0 <= b -> 0 <= Rmax a b.
Proof. intros. apply Rle_trans with b; [easy|apply Rmax_r]. Qed.
Lemma divisor_positive a s : 0 < exp a / s -> 0 < s.
Proof.
  intros H. destruct (Rlt_dec 0 s); [easy|]. exfalso. pose proof (exp_pos a). destruct (Req_dec s 0) as [->|].
  - unfold Rdiv in H. rewrite Rinv_0 in H. lra.
  - assert (/ s < 0) by (apply Rinv_lt_0_compat; lra). unfold Rdiv in H. nra.
Qed.
Lemma numerator_positive x s : 0 <= x -> 1 < x / s -> 0 < x.
Proof. intros H K. destruct (Req_dec x 0) as [->|]; [unfold Rdiv in K; lra|lra]. Qed.
Lemma positive_or_one m : 0 < if Rltb 0 m then m else 1.
Proof. destruct (Rltb 0 m) eqn:E; [now apply Rltb_true|lra]. Qed.
Lemma scaled_root s a : 0 < s -> s * sqrt ((/ s) ^ 2 * a) = sqrt a.
Proof.
  intros. rewrite sqrt_mult_alt by apply pow2_ge_0. rewrite sqrt_pow2 by (left; now apply Rinv_0_lt_compat). field. lra.
Qed.
Lemma exp_below_one a : a < 0 -> exp a < 1.
Proof. intros. rewrite <- exp_0. now apply exp_increasing. Qed.
Lemma acosh_domain x : 0 <= x * x - 1 -> 0 < x + sqrt (x * x - 1) -> 1 <= x.
Proof.
  intros A B. pose proof (sqrt_sqrt _ A). pose proof (sqrt_pos (x * x - 1)).
  destruct (Rle_dec 1 x); [easy|]. exfalso. assert (x <= -1) by nra. nra.
Qed.
Lemma acos_by_half x : -1 <= x <= 1 -> acos x = 2 * asin (sqrt ((1 - x) / 2)).
Proof.
  intros H. assert (N : 0 <= (1 - x) / 2) by lra.
  pose proof (sqrt_sqrt _ N) as S. pose proof (sqrt_pos ((1 - x) / 2)) as P.
  set (s := sqrt ((1 - x) / 2)) in *. assert (B : -1 <= s <= 1) by (split; nra).
  pose proof (asin_bound s). pose proof PI_RGT_0.
  assert (T : 0 <= asin s).
  { destruct (Rle_dec 0 (asin s)); [easy|]. assert (sin (asin s) < 0) by (apply sin_lt_0_var; lra). rewrite sin_asin in *; lra. }
  rewrite <- (acos_cos (2 * asin s)) by lra.
  f_equal. rewrite cos_2a_sin, (sin_asin s B). lra.
Qed.
Lemma sqrt_of_product a b : 0 <= a * b -> sqrt (a * b) = sqrt (Rabs a) * sqrt (Rabs b).
Proof. intros. rewrite <- sqrt_mult, <- Rabs_mult, Rabs_pos_eq; auto using Rabs_pos. Qed.

Lemma sqrt_exp a : sqrt (exp a) = exp (a / 2).
Proof. rewrite (exp_by_half a). apply sqrt_square, Rlt_le, exp_pos. Qed.

Lemma exp_opp_half a : exp (- a / 2) = / exp (a / 2).
Proof. rewrite <- exp_Ropp. f_equal. field. Qed.
Lemma sqrt_nonzero a : sqrt a <> 0 -> 0 < a.
Proof. intros H. destruct (Rlt_dec 0 a); [easy|]. exfalso. apply H, sqrt_neg_0. lra. Qed.

(** * Signs *)
Ltac nonempty :=
  match goal with
  | |- ?L <> [] => first
    [ assumption
    | match goal with H : Rsum L _ <> 0 |- _ => exact (Rsum_nonzero_nonempty _ _ H) end
    | match goal with H : 0 < Rsum L _ |- _ => exact (Rsum_positive_nonempty _ _ H) end
    | apply box_nonempty; assumption ]
  end.

Ltac pos := first
  [ assumption
  | match goal with
    | |- 0 < exp _ => apply exp_pos
    | H : 0 < exp _ / ?s |- 0 < ?s => exact (divisor_positive _ _ H)
    | H : 1 < ?x / _, K : 0 <= ?x |- 0 < ?x => exact (numerator_positive _ _ K H)
    | |- 0 < (if Rltb 0 ?m then ?m else 1) => apply positive_or_one
    | |- 0 <= (if Rltb 0 ?m then ?m else 1) => apply Rlt_le, positive_or_one
    | |- (if Rltb 0 ?m then ?m else 1) <> 0 => apply Rgt_not_eq, positive_or_one
    | |- 0 <= exp _ => apply Rlt_le, exp_pos
    | |- exp _ <> 0 => apply exp_nonzero
    | |- 0 <= sqrt _ => apply sqrt_pos
    | |- 0 <= Rabs _ => apply Rabs_pos
    | |- 0 <= count _ _ => apply count_nonneg
    | |- 0 < count ?k ?s => first [apply count_positive; assumption | pose proof (count_nonneg k s); lra]
    | H : sqrt ?a <> 0 |- 0 < ?a => exact (sqrt_nonzero a H)
    | H : sqrt ?a <> 0 |- 0 <= ?a => exact (Rlt_le _ _ (sqrt_nonzero a H))
    | |- sqrt _ <> 0 => apply Rgt_not_eq; red; apply sqrt_lt_R0; pos
    | H : forall j, within ?s j -> 0 < _ |- 0 < ?f (clip _ _) => is_var f; apply H; solve [shapes]
    | H : forall j, within ?s j -> 0 < _ |- 0 <= ?f (clip _ _) => is_var f; apply Rlt_le, H; solve [shapes]
    | H : forall j, within ?s j -> 0 <= _ |- 0 <= ?f (clip _ _) => is_var f; apply H; solve [shapes]
    | H : forall j, within ?s j -> _ <> 0 |- ?f (clip _ _) <> 0 => is_var f; apply H; solve [shapes]
    | H : In ?j (box ?k ?s ?i) |- count ?k ?s <> 0 => exact (count_of_element k s i j H)
    | |- 0 <= ?a * ?a => apply square_nonneg
    end
  | lra
  | match goal with
    | |- 0 < _ * _ => apply Rmult_lt_0_compat; pos
    | |- 0 <= _ * _ => apply Rmult_le_pos; pos
    | |- _ * _ <> 0 => apply Rmult_integral_contrapositive_currified; pos
    | |- 0 < _ / _ => apply Rdiv_lt_0_compat; pos
    | |- 0 <= _ / _ => apply Rmult_le_pos; [pos|apply Rlt_le, Rinv_0_lt_compat; pos]
    | |- 0 < / _ => apply Rinv_0_lt_compat; pos
    | |- 0 <= / _ => apply Rlt_le, Rinv_0_lt_compat; pos
    | |- / _ <> 0 => apply Rinv_neq_0_compat; pos
    | |- 0 < _ + _ => first [apply Rplus_lt_0_compat; pos | apply Rplus_lt_le_0_compat; pos | apply Rplus_le_lt_0_compat; pos]
    | |- 0 <= _ + _ => apply Rplus_le_le_0_compat; pos
    | |- 0 < Rmax _ _ => first [apply greatest_positive_l; solve [pos] | apply greatest_positive_r; solve [pos]]
    | |- 0 <= Rmax _ _ => first [apply greatest_nonneg_l; solve [pos] | apply greatest_nonneg_r; solve [pos]]
    | |- 0 < sqrt _ => apply sqrt_lt_R0; pos
    | |- 0 < Rsum _ _ => apply Rsum_pos; [nonempty|intros; pos]
    | |- 0 <= Rsum _ _ => apply Rsum_nonneg; intros; pos
    | |- 0 < Rprod _ _ => apply Rprod_pos; intros; pos
    | |- _ / _ <> 0 => unfold Rdiv; apply Rmult_integral_contrapositive_currified; pos
    | H : ?a * _ <> 0 |- ?a <> 0 => exact (product_nonzero_l _ _ H)
    | H : ?a / _ <> 0 |- ?a <> 0 => exact (quotient_nonzero _ _ H)
    | H : _ * ?a <> 0 |- ?a <> 0 => exact (product_nonzero_r _ _ H)
    | |- ?a <> 0 => apply Rgt_not_eq; red; solve [pos]
    end ].

(** Every inverse with the equation that defines it, and its sign. *)
Ltac inverses := repeat match goal with
  | |- context [/ ?a] => inverse a
  | H : context [/ ?a] |- _ => inverse a
  end
with inverse a :=
  lazymatch goal with H : a * / a = 1 |- _ => fail | _ => assert (a * / a = 1) by (apply inverse_fact; pos) end;
  try assert (0 < / a) by (apply Rinv_0_lt_compat; pos).
Ltac inverses_as_numbers := inverses; repeat match goal with
  | |- context [/ ?a] => let v := fresh "v" in generalize dependent (/ a); intros v; intros
  | H : context [/ ?a] |- _ => let v := fresh "v" in generalize dependent (/ a); intros v; intros
  end.

Ltac unfold_division := unfold Rdiv in *.

(** * Equations *)
Ltac exps := repeat first
  [ rewrite exp_ln by pos
  | rewrite Ropp_involutive | rewrite exp_minus_twice | rewrite exp_opp_half
  | rewrite exp_minus | rewrite exp_plus | rewrite exp_Ropp | rewrite exp_twice | rewrite exp_0
  | rewrite exp_product_sum | rewrite exp_product_minus | rewrite exp_product_opp | rewrite exp_opp_product
  | rewrite Rdiv_plus_distr | rewrite Rdiv_minus_distr ].
Ltac exps_in H := repeat first
  [ rewrite exp_minus in H | rewrite exp_plus in H | rewrite exp_Ropp in H | rewrite exp_twice in H | rewrite exp_0 in H ].

Ltac halves := repeat match goal with
  | |- context [exp (?a / 2)] => progress rewrite (exp_by_half a)
  end.
Ltac angle_halves := repeat match goal with
  | |- context [sin (?a / 2)] => progress (rewrite ?(sin_by_half a), ?(cos_by_half a))
  | |- context [cos (?a / 2)] => progress (rewrite ?(sin_by_half a), ?(cos_by_half a))
  end.

Ltac angles := repeat first
  [ rewrite sin_plus | rewrite cos_plus | rewrite sin_minus | rewrite cos_minus | rewrite sin_neg | rewrite cos_neg
  | rewrite Rdiv_plus_distr | rewrite Rdiv_minus_distr ].

(** Squares of roots, sines and cosines. *)
Ltac squares := repeat match goal with
  | |- context [sqrt ?a] =>
      lazymatch goal with H : sqrt a * sqrt a = a |- _ => fail | _ => assert (sqrt a * sqrt a = a) by (apply sqrt_sqrt; pos); pose proof (sqrt_pos a) end
  | |- context [sin ?a] =>
      lazymatch goal with H : sin a * sin a + cos a * cos a = 1 |- _ => fail | _ => pose proof (sin_cos_squares a) end
  | |- context [cos ?a] =>
      lazymatch goal with H : sin a * sin a + cos a * cos a = 1 |- _ => fail | _ => pose proof (sin_cos_squares a) end
  end.

(** An equation that follows from others by multiplying and adding them. *)
Ltac polynomial_goal := cbn [pow] in *; first [solve [timeout 2 nra] | solve [timeout 4 nsatz]].
Ltac by_field := first [ reflexivity | ring | solve [field; repeat split; pos] | lra ].
Ltac algebra := first
  [ by_field
  | solve [squares; first [polynomial_goal | field_simplify_eq; [polynomial_goal | repeat split; pos] ]]
  | solve [apply equal_by_squares; [pos|pos|halves; squares; first [ring | polynomial_goal]]] ].

Ltac powers := repeat match goal with
  | |- context [Rpow ?x ?y] => rewrite (Rpow_positive x y) by pos
  | |- context [ln (?a / ?b)] => rewrite (ln_div a b) by pos
  | |- context [ln (?a * ?b)] => rewrite (ln_mult a b) by pos
  | |- context [ln (exp ?a)] => rewrite (ln_exp a)
  | |- context [ln (Rprod ?L ?f)] => rewrite (ln_Rprod L f) by (intros; pos)
  end.

(** Signs that need more: inverses by their equations, or another condition by which the opposite is impossible. *)
Ltac signs := first
  [ pos
  | match goal with H : 0 <= ?x * ?x - 1, K : 0 < ?x + sqrt (?x * ?x - 1) |- _ => pose proof (acosh_domain x H K); solve [pos] end
  | apply pow_dom_positive; solve [pos]
  | solve [unfold_division; inverses_as_numbers; squares; nra]
  | match goal with
    | H : ?a <> 0 |- ?b <> 0 =>
        let E := fresh "E" in intros E; apply H; exps; exps_in E; solve [unfold_division; inverses_as_numbers; squares; polynomial_goal]
    end ].

Ltac roots := repeat first [rewrite sqrt_exp | rewrite sqrt_mult by pos].

Ltac logs := apply exp_inv; repeat first [rewrite exp_ln by signs | rewrite exp_plus | rewrite exp_minus]; exps; halves.

(** Exponents as sums of monomials, and e to each of these. *)
Ltac exponents :=
  repeat match goal with |- context [exp ?e] => progress ring_simplify e end;
  repeat first [rewrite exp_plus | rewrite exp_minus]; repeat rewrite exp_Ropp;
  repeat match goal with |- context [exp ?a] => match goal with |- context [exp ?b] =>
    tryif constr_eq a b then fail else (replace b with a by ring) end end.

(** An odd function of an argument and of its negative. *)
Ltac odd_functions := repeat match goal with |- context [erf (- ?a)] => rewrite (erf_opp a) end;
  repeat match goal with
  | |- context [erf ?b] => match goal with
    | |- context [erf ?a] => odd_at a b
    | H : context [erf ?a] |- _ => odd_at a b
    end
  end
with odd_at a b := tryif constr_eq a b then fail else
  first [replace b with a by (field; pos) | replace (erf b) with (- erf a) by (rewrite <- erf_opp; f_equal; field; pos)].

(** One function of equal arguments. *)
Ltac same_values := repeat match goal with
  | |- context [ln ?a] => match goal with |- context [ln ?b] =>
      tryif constr_eq a b then fail else (replace (ln b) with (ln a) by (f_equal; exps; algebra)) end
  | |- context [sqrt ?a] => match goal with |- context [sqrt ?b] =>
      tryif constr_eq a b then fail else (replace (sqrt b) with (sqrt a) by (f_equal; exps; algebra)) end
  end.

Ltac equal := first
  [ by_field
  | solve [f_equal; by_field]
  | solve [powers; match goal with |- context [exp (_ * _)] => exponents; by_field end]
  | solve [powers; exps; halves; algebra]
  | solve [match goal with |- context [sqrt _] => roots; exps; algebra end]
  | solve [angles; angle_halves; algebra]
  | solve [logs; algebra]
  | solve [apply double_inj; logs; algebra]
  | solve [powers; by_field]
  | solve [powers; exps; f_equal; by_field]
  | solve [exps; f_equal; by_field]
  | solve [algebra]
  | solve [same_values; algebra]
  | solve [rewrite acos_by_half by lra; reflexivity] | solve [symmetry; rewrite acos_by_half by lra; reflexivity]
  | solve [rewrite sqrt_of_product by pos; algebra]
  | solve [rewrite scaled_root by pos; f_equal; by_field] ].

(** e to what is known to be negative. *)
Ltac exps_below_one := repeat match goal with
  | H : ?a < 0 |- context [exp ?a] => lazymatch goal with K : exp a < 1 |- _ => fail | _ => pose proof (exp_below_one a H) end
  end.

(** Cases of the conditions and extreme values that occur. *)
Ltac booleans := rewrite ?Bool.negb_true_iff, ?Bool.negb_false_iff, ?Bool.andb_true_iff, ?Bool.orb_true_iff,
  ?Reqb_true, ?Rltb_true, ?Rleb_true, ?Reqb_false, ?Rltb_false, ?Rleb_false in *.
Ltac parts := repeat match goal with
  | H : _ /\ _ |- _ => destruct H
  | H : True |- _ => clear H
  end.
Ltac cases := repeat match goal with
  | |- context [if ?b then _ else _] => let E := fresh "E" in destruct b eqn:E
  | H : context [if ?b then _ else _] |- _ => let E := fresh "E" in destruct b eqn:E
  | |- context [Rmax ?a ?b] => destruct (Rle_dec a b); [rewrite (Rmax_right a b) by lra | rewrite (Rmax_left a b) by lra]
  | |- context [Rmin ?a ?b] => destruct (Rle_dec a b); [rewrite (Rmin_left a b) by lra | rewrite (Rmin_right a b) by lra]
  | |- context [Rabs ?a] => destruct (Rle_dec 0 a); [rewrite (Rabs_pos_eq a) in * by lra | rewrite (Rabs_left1 a) in * by lra]
  end; repeat match goal with H : ~ _ <= _ |- _ => apply Rnot_le_lt in H end; booleans; parts; try discriminate; try (exfalso; lra);
  repeat match goal with
  | H : ?a <= ?b, K : ?b <= ?a |- _ => tryif constr_eq a b then fail else (is_var a; assert (a = b) by lra; subst a)
  end.
