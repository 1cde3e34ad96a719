(** Normal forms of sums: parts apart, constants before them, what is left under the sum compared term by term. *)
Require Import Reals List Arith Lia Lra FunctionalExtensionality.
From Hnf Require Import Tensors Sums Indices Shapes Scalars.
Import ListNotations.
Open Scope R_scope.

(** A sum whose terms are in normal form. *)
Definition Nsum {A} (L : list A) (f : A -> R) : R := Rsum L f.
Lemma Nsum_ext {A} (L : list A) f g : (forall x, In x L -> f x = g x) -> Nsum L f = Nsum L g.
Proof. apply Rsum_ext. Qed.
Lemma Nsum_pos {A} (L : list A) f : L <> [] -> (forall x, In x L -> 0 < f x) -> 0 < Nsum L f.
Proof. apply Rsum_pos. Qed.
Lemma Nsum_nonneg {A} (L : list A) f : (forall x, In x L -> 0 <= f x) -> 0 <= Nsum L f.
Proof. apply Rsum_nonneg. Qed.
Lemma into_sum {A} (L : list A) c f : c * Nsum L f = Rsum L (fun x => c * f x).
Proof. symmetry. apply Rsum_scal. Qed.
Lemma factor_out {A} (L : list A) c f g : (forall x, In x L -> f x = c * g x) -> Rsum L f = c * Nsum L g.
Proof. apply Rsum_factor. Qed.
Lemma constant_sum {A} (L : list A) c f : (forall x, In x L -> f x = c) -> Rsum L f = c * INR (length L).
Proof. intros H. rewrite (Rsum_ext L f (fun _ => c) H). apply Rsum_const. Qed.

(** Reductions over one box, whatever the shape was called. *)
Ltac of_captures := repeat match goal with
  | H : within _ _ |- _ => clear H
  | H : fits ?s ?t |- _ => first [is_var s; is_var t; fail 1 | clear H]
  | H : forall _ : index, _ |- _ => clear H
  | H : @eq R _ _ |- _ => clear H
  end; solve [any_axis | each_axis].
Ltac boxes := repeat match goal with
  | N : NoDup (?j ++ ?k) |- context [box ?j (reduced ?k ?s) ?i] => rewrite (box_reduced j k s i N)
  | t : sizes |- context [box ?k ?s ?i] => composite s; rewrite (box_ext k s t i) by of_captures
  | t : sizes, H : context [box ?k ?s ?i] |- _ => composite s; rewrite (box_ext k s t i) in H by of_captures
  | t : sizes |- context [count ?k ?s] => composite s; rewrite (count_ext k s t) by of_captures
  | t : sizes, H : context [count ?k ?s] |- _ => composite s; rewrite (count_ext k s t) in H by of_captures
  | E : same_size ?k ?s ?t |- context [box ?k ?t ?i] => tryif constr_eq s t then fail else rewrite <- (box_ext k s t i E)
  | E : same_size ?k ?s ?t, H : context [box ?k ?t ?i] |- _ => tryif constr_eq s t then fail else rewrite <- (box_ext k s t i E) in H
  | E : same_size ?k ?s ?t |- context [count ?k ?t] => tryif constr_eq s t then fail else rewrite <- (count_ext k s t E)
  end
with composite s := tryif is_var s then fail else idtac.

(** What does not vary along the axes of the sum is read where the sum stands. *)
Ltac reads_inside := repeat match goal with
  | F : free ?k ?s, Hj : In ?j (box ?k ?t ?i) |- context [clip ?s ?j] => rewrite (clip_free k s t i j F Hj)
  | Hj : In ?j (box ?k ?t ?i), D : NoDup ?k |- context [box ?k ?s ?j] => rewrite (box_again k s t i j Hj D)
  | Hj : In ?j (box [?a] ?t ?i) |- context [box [?a] ?s ?j] => rewrite (box_again [a] s t i j Hj) by (constructor; [easy|constructor])
  end.

(** Rewrites the left side of an equation whose right side is not known yet. *)
Ltac left_side tactic :=
  let r := fresh "r" in match goal with |- _ = ?right => set (r := right) end; tactic; subst r; reflexivity.

(** An axis of size 1 is not read. *)
Lemma clip_unread s i a n : s a = 1%nat -> clip s (upd i a n) = clip s i.
Proof.
  intros E. apply functional_extensionality. intros b. unfold clip, upd.
  destruct (Nat.eqb_spec (s b) 1); [easy|]. destruct (Nat.eqb_spec b a); [congruence|easy].
Qed.
Ltac unread := repeat match goal with
  | |- context [clip ?s (upd ?i ?a ?n)] => rewrite (clip_unread s i a n) by solve [small; assumption | matrix_axes]
  end.

(** The greatest of terms that share an addend. *)
Ltac extremes := repeat match goal with
  | |- context [Rgreatest ?L (fun x => @?f x + ?c)] => rewrite (Rgreatest_shift L f c) by nonempty
  | |- context [Rgreatest ?L ?f] =>
      let E := fresh "E" in let j := fresh "j" in let Hj := fresh "Hj" in
      eassert (E : Rgreatest L f = Rgreatest L _) by (apply Rgreatest_ext; intros j Hj; cbv beta; left_side ltac:(progress reads_inside));
      rewrite E; clear E
  end.

(** The factors of a product that do not depend on j, and those that do. *)
Ltac times a b := lazymatch a with 1 => b | _ => lazymatch b with 1 => a | _ => constr:(a * b) end end.
Ltac factors j t := lazymatch t with
  | ?a * ?b =>
      let p := factors j a in let q := factors j b in
      lazymatch p with (?c, ?v) => lazymatch q with (?d, ?w) => let e := times c d in let x := times v w in constr:((e, x)) end end
  | - ?a => let p := factors j a in lazymatch p with (?c, ?v) => constr:((- c, v)) end
  | _ => match t with context [j] => constr:((1, t)) | _ => constr:((t, 1)) end
  end.

Ltac terms := repeat first [rewrite exp_ln by pos | rewrite ln_exp | rewrite ln_div by pos | rewrite ln_mult by pos]; unfold Rdiv; repeat first
  [ rewrite exp_ln by pos | rewrite exp_minus | rewrite exp_plus | rewrite exp_Ropp | rewrite Rinv_mult | rewrite Rinv_inv ];
  match goal with |- ?b = _ => try (progress ring_simplify b) end.

Ltac split_sums := repeat match goal with
  | |- context [Rsum ?L (fun x => @?f x + @?g x)] => rewrite (Rsum_plus L f g)
  | |- context [Rsum ?L (fun x => @?f x - @?g x)] => rewrite (Rsum_minus L f g)
  | |- context [Rsum ?L (fun x => - @?f x)] => rewrite (Rsum_opp L f)
  end.

Ltac one_term L f :=
  let E := fresh "E" in let j := fresh "j" in let Hj := fresh "Hj" in
  first
  [ eassert (E : Rsum L f = _ * INR (length L)) by
      (eapply constant_sum; intros j Hj; cbv beta;
       match goal with |- ?b = _ => lazymatch b with context [j] => fail | _ => idtac end end; reflexivity)
  | eassert (E : Rsum L f = _ * Nsum L _) by
      (eapply factor_out; intros j Hj; cbv beta;
       match goal with |- ?b = _ => let p := factors j b in lazymatch p with (?c, ?v) => transitivity (c * v); [ring|reflexivity] end end) ];
  rewrite E; clear E; cbv beta.

Ltac normal_sums := repeat match goal with
  | |- context [Rsum ?L ?f] =>
      let E := fresh "E" in eassert (E : Rsum L f = _) by (left_side ltac:(normal_sum L f)); rewrite E; clear E
  end
with normal_sum L f :=
  let E := fresh "E" in let j := fresh "j" in let Hj := fresh "Hj" in
  eassert (E : Rsum L f = Rsum L _) by
    (apply Rsum_ext; intros j Hj; cbv beta;
     left_side ltac:(boxes; reads_inside; unread; extremes; normal_sums; terms));
  try rewrite E; clear E; cbv beta; split_sums;
  repeat match goal with |- context [Rsum L ?g] => one_term L g end.

Ltac counts := repeat match goal with
  | |- context [INR (length (box ?k ?s ?i))] => rewrite (box_length k s i)
  | H : context [INR (length (box ?k ?s ?i))] |- _ => rewrite (box_length k s i) in H
  end.

(** Elements that are read at two indices which agree where they are read. *)
Ltac same_index := apply functional_extensionality; first
  [ solve [any_axis] | solve [each_axis] ].
Ltac same_reads := repeat match goal with
  | |- context [clip ?s ?p] => match goal with |- context [clip s ?q] =>
      tryif constr_eq p q then fail else (replace (clip s q) with (clip s p) by same_index) end
  end.

Ltac same_sums := repeat match goal with
  | |- context [Nsum ?L ?f] => match goal with |- context [Nsum ?M ?g] =>
      tryif constr_eq f g then fail else
      (tryif constr_eq L M then idtac else (replace M with L by (f_equal; solve [each_size]));
       rewrite (Nsum_ext L g f) by (let j := fresh "j" in intros j ?; cbv beta; same_reads; by_field)) end
  end.

(** A sum over several axes is one over each in turn. *)
Ltac sums_in_turn := repeat match goal with
  | |- context [Rsum (box (?j ++ ?k) ?s ?i) ?f] => rewrite (box_app j k s i), Rsum_flat_map
  end.

(** Sums of sums: the factors go inside, and the order of the sums is changed on one side. *)
Ltac double_sums := match goal with
  | |- Rsum ?L ?f = Rsum ?M ?g =>
      let E := fresh "E" in let F := fresh "F" in let x := fresh "x" in
      eassert (E : Rsum L f = Rsum L (fun x => Rsum _ _)) by
        (apply Rsum_ext; intros x ?; cbv beta; first [rewrite Rmult_comm, <- Rsum_scal | rewrite <- Rsum_scal]; reflexivity);
      eassert (F : Rsum M g = Rsum M (fun x => Rsum _ _)) by
        (apply Rsum_ext; intros x ?; cbv beta; first [rewrite Rmult_comm, <- Rsum_scal | rewrite <- Rsum_scal]; reflexivity);
      rewrite E, F; clear E F; rewrite (Rsum_swap L);
      apply Rsum_ext; intros; apply Rsum_ext; intros; same_reads; by_field
  end.

(** Contractions over the same size. *)
Ltac same_lists := repeat match goal with
  | |- context [seq 0 ?n] => match goal with |- context [seq 0 ?m] =>
      tryif constr_eq m n then fail else (replace (seq 0 m) with (seq 0 n) by (f_equal; solve [each_size])) end
  | |- context [box ?k ?s ?i] => match goal with |- context [box k ?t i] =>
      tryif constr_eq s t then fail else (rewrite (box_ext k t s i) by of_captures) end
  end.

Ltac sums := boxes; same_lists; sums_in_turn; boxes; extremes; normal_sums; same_sums; counts; unfold Nsum in *.
