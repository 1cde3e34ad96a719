(** The proof of a rule: its tensors unfolded, their shapes compared axis by axis, and what is left proved for numbers. *)
Require Import Reals List Arith Lia Lra FunctionalExtensionality.
From Hnf Require Export Tensors Sums Indices Scalars Shapes Reductions Moves Identities.
Import ListNotations.
Open Scope R_scope.

Ltac unfold_tensors := cbv beta iota zeta delta
  [ capture mask_capture number map1 map1_on map2 map2_on t_add t_sub t_mul t_div t_neg t_abs t_exp t_log t_sqrt t_pow t_sin t_cos
    t_atan t_asin t_acos t_floor t_erf t_i0 t_maximum t_minimum compare t_eq t_ne t_lt t_le t_gt t_ge connect m_and m_or m_not t_where
    as_number as_mask m_where reduce t_sum t_prod extreme t_amax t_amin t_size t_matmul t_transpose t_unsqueeze t_squeeze
    t_reverse bound is_bound t_slice t_concat t_pad t_repeat
    refines always shape typed dom el mshape mtyped mdom holds Rleast ].

(** Conditions of the rule, as relations of numbers and at an index. *)
Ltac relations := repeat match goal with
  | H : forall j : index, within ?s j -> _ /\ Rltb (@?f j) (@?g j) = true |- _ =>
      assert (forall j, within s j -> f j < g j) by (intros; apply Rltb_true; apply H; assumption); clear H
  | H : forall j : index, within ?s j -> _ /\ Rleb (@?f j) (@?g j) = true |- _ =>
      assert (forall j, within s j -> f j <= g j) by (intros; apply Rleb_true; apply H; assumption); clear H
  | H : forall j : index, within ?s j -> _ /\ Reqb (@?f j) (@?g j) = true |- _ =>
      assert (forall j, within s j -> f j = g j) by (intros; apply Reqb_true; apply H; assumption); clear H
  | H : forall j : index, within ?s j -> _ /\ negb (Reqb (@?f j) (@?g j)) = true |- _ =>
      assert (forall j, within s j -> f j <> g j) by (intros; apply Reqb_false, Bool.negb_true_iff; apply H; assumption); clear H
  end; cbv beta in *.
Ltac conditions i := repeat match goal with
  | H : forall j : index, within ?s j -> _ |- _ =>
      let W := fresh "W" in assert (W : within s i) by shapes; pose proof (H i W); clear W;
      revert H
  end; intros; parts; booleans.

Ltac at_element j :=
  repeat match goal with
  | H : forall x, In x ?L -> _, Hj : In j ?L |- _ =>
      lazymatch type of (H j Hj) with ?P => lazymatch goal with K : P |- _ => fail | _ => pose proof (H j Hj) end end
  end; parts.

(** What holds of every element holds of one. *)
Ltac witness := match goal with
  | H : forall j, In j ?L -> _ |- _ =>
      let j := fresh "j" in let Hj := fresh "Hj" in
      destruct (some_element L ltac:(nonempty)) as [j Hj]; at_element j;
      repeat match goal with
      | F : free ?k ?s, G : In j (box ?k ?t ?i), K : context [clip ?s j] |- _ => rewrite (clip_free k s t i j F G) in K
      end
  end.

(** Elements as plain numbers. *)
Ltac values := repeat match goal with
  | |- context [?f (clip ?s ?i)] => let v := fresh "v" in generalize dependent (f (clip s i)); intros v; intros
  end.

Ltac number_goal := match goal with
  | |- context [erf _] => odd_functions; first [assumption | lra | number_goal_of_functions]
  | |- _ => number_goal_of_functions
  end
with number_goal_of_functions := match goal with
  | |- @eq R _ _ => equal
  | |- _ => signs
  end.

Ltac reductions := match goal with
  | |- context [Rsum _ _] => idtac
  | |- context [Rprod _ _] => idtac
  | |- context [Rgreatest _ _] => idtac
  | |- context [count _ _] => idtac
  | |- context [box _ _ _] => idtac
  end.

(** Nothing is added up, or the number of elements is not 0. *)
Ltac none_or_some := match goal with
  | |- context [box ?k ?s ?i] => destruct (box_or_count k s i) as [E|?]; [rewrite E in *; cbn [Rsum]|]
  end.

Ltac split_goal := repeat match goal with |- _ /\ _ => split | |- True => exact I end.

Ltac light := try setoid_rewrite Rmult_1_r; try setoid_rewrite exp_plus; first [reflexivity | ring | solve [field; repeat split; pos]].

(** Sums over one list, compared term by term. *)
Ltac termwise := boxes; same_lists; repeat first [rewrite <- Rsum_plus | rewrite <- Rsum_minus];
  apply Rsum_ext; let j := fresh "j" in intros j ?; at_element j; first [solve [powers; by_field] | reads_inside; powers; by_field].

Ltac by_cases := solve [cases; split_goal; exps_below_one; first [assumption | number_goal]].

Ltac leaf := match goal with
  | |- True => exact I
  | _ => moved
  | |- if ?b then _ else _ => solve [destruct b; split_goal; first [intros; exact I | assumption | boxes; nonempty]]
  | |- @eq nat _ _ => solve [matrix_axes]
  | |- @eq R ?x ?x => reflexivity
  | H : ?P |- ?P => exact H
  | |- _ <> [] => boxes; nonempty
  | _ => reductions; match goal with
      | |- @eq R _ _ => first
          [ solve [light] | solve [termwise] | solve [symmetry; termwise] | solve [boxes; powers; by_field] | solve [sums; values; equal] | solve [boxes; none_or_some; solve [sums; values; equal]]
          | solve [double_sums] | solve [symmetry; double_sums] ]
      | _ => first [ solve [pos] | solve [boxes; values; signs] | solve [sums; values; signs] | solve [boxes; witness; values; signs] ]
      end
  | _ => reads_inside; values; first
      [ assumption
      | known_identity | solve [log_sigmoids]
      | match goal with |- context [if _ then _ else _] => first [reflexivity | by_cases] end
      | number_goal | by_cases ]
  | _ => solve [boxes; witness; values; number_goal]
  | _ => solve [same_reads; values; number_goal]
  end.

Ltac walk := repeat match goal with
  | |- True => exact I
  | |- _ /\ _ => split
  | |- forall j, In j _ -> _ => let j := fresh "j" in intros j ?; at_element j; conditions j
  end.

Ltac certify :=
  unfold_tensors; intros; rewrite ?bcast_one_l, ?bcast_one_r in *; parts; whole_numbers;
  repeat match goal with
  | |- _ /\ _ => split
  | |- fits _ _ => first [shapes | moved_sizes]
  | |- forall a : nat, _ => first [shapes | moved_sizes]
  | |- forall i : index, within _ i -> _ =>
      let i := fresh "i" in let W := fresh "W" in let D := fresh "D" in intros i W D; parts; relations; conditions i; walk
  | |- _ -> _ => let H := fresh "H" in intros H; parts; whole_numbers
  end;
  try leaf.
