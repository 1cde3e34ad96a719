(** Sums, products and greatest values over a list. *)
Require Import Reals List Arith Lia Lra Setoid Morphisms.
From Hnf Require Import Tensors.
Import ListNotations.
Open Scope R_scope.

Section Over.
Context {A : Type}.
Implicit Types (L M : list A) (f g : A -> R).

Lemma Rsum_ext L f g : (forall x, In x L -> f x = g x) -> Rsum L f = Rsum L g.
Proof. induction L; simpl; intros H; [easy|]. rewrite H, IHL; auto. Qed.

Lemma Rsum_plus L f g : Rsum L (fun x => f x + g x) = Rsum L f + Rsum L g.
Proof. induction L; simpl; [ring|rewrite IHL; ring]. Qed.

Lemma Rsum_minus L f g : Rsum L (fun x => f x - g x) = Rsum L f - Rsum L g.
Proof. induction L; simpl; [ring|rewrite IHL; ring]. Qed.

Lemma Rsum_opp L f : Rsum L (fun x => - f x) = - Rsum L f.
Proof. induction L; simpl; [ring|rewrite IHL; ring]. Qed.

Lemma Rsum_scal L c f : Rsum L (fun x => c * f x) = c * Rsum L f.
Proof. induction L; simpl; [ring|rewrite IHL; ring]. Qed.

Lemma Rsum_factor L f c g : (forall x, In x L -> f x = c * g x) -> Rsum L f = c * Rsum L g.
Proof. intros H. rewrite <- Rsum_scal. now apply Rsum_ext. Qed.

(** A constant keeps its factor, the number of terms. *)
Lemma Rsum_const L c : Rsum L (fun _ => c) = c * INR (length L).
Proof. induction L; cbn [Rsum length]; [simpl; ring|rewrite IHL, S_INR; ring]. Qed.

Lemma Rsum_app L M f : Rsum (L ++ M) f = Rsum L f + Rsum M f.
Proof. induction L; simpl; [ring|rewrite IHL; ring]. Qed.

Lemma Rsum_pos L f : L <> [] -> (forall x, In x L -> 0 < f x) -> 0 < Rsum L f.
Proof.
  intros N H. destruct L as [|a L]; [easy|]. clear N. revert a H. induction L as [|c L IH]; intros b H.
  - cbn [Rsum]. assert (0 < f b) by (apply H; simpl; auto). lra.
  - assert (0 < f b) by (apply H; simpl; auto).
    assert (0 < Rsum (c :: L) f) by (apply IH; intros x Hx; apply H; right; exact Hx). change (0 < f b + Rsum (c :: L) f). lra.
Qed.

Lemma Rsum_nonneg L f : (forall x, In x L -> 0 <= f x) -> 0 <= Rsum L f.
Proof. induction L; simpl; intros H; [lra|]. assert (0 <= f a) by auto. assert (0 <= Rsum L f) by auto. lra. Qed.

Lemma Rsum_positive_nonempty L f : 0 < Rsum L f -> L <> [].
Proof. intros H ->. simpl in H. lra. Qed.

Lemma Rsum_nonzero_nonempty L f : Rsum L f <> 0 -> L <> [].
Proof. intros H ->. now apply H. Qed.

Lemma Rprod_ext L f g : (forall x, In x L -> f x = g x) -> Rprod L f = Rprod L g.
Proof. induction L; simpl; intros H; [easy|]. rewrite H, IHL; auto. Qed.

Lemma Rprod_pos L f : (forall x, In x L -> 0 < f x) -> 0 < Rprod L f.
Proof. induction L; simpl; intros H; [lra|]. apply Rmult_lt_0_compat; auto. Qed.

Lemma ln_Rprod L f : (forall x, In x L -> 0 < f x) -> ln (Rprod L f) = Rsum L (fun x => ln (f x)).
Proof.
  induction L; simpl; intros H; [apply ln_1|].
  rewrite ln_mult, IHL; auto. apply Rprod_pos; auto.
Qed.

Lemma Rprod_exp L f : Rprod L (fun x => exp (f x)) = exp (Rsum L f).
Proof. induction L; simpl; [now rewrite exp_0|now rewrite exp_plus, IHL]. Qed.

Lemma Rgreatest_ext L f g : (forall x, In x L -> f x = g x) -> Rgreatest L f = Rgreatest L g.
Proof.
  induction L as [|a [|b L] IH]; simpl; intros H; [easy|auto|].
  rewrite H by auto. f_equal. apply IH. intros. apply H. right. assumption.
Qed.

Lemma Rgreatest_shift L f c : L <> [] -> Rgreatest L (fun x => f x + c) = Rgreatest L f + c.
Proof.
  induction L as [|a [|b L] IH]; intros N; [easy|easy|].
  change (Rmax (f a + c) (Rgreatest (b :: L) (fun x => f x + c)) = Rmax (f a) (Rgreatest (b :: L) f) + c).
  rewrite IH by easy. unfold Rmax. destruct (Rle_dec _ _), (Rle_dec _ _); lra.
Qed.

Lemma Rgreatest_bound L f x : In x L -> f x <= Rgreatest L f.
Proof.
  induction L as [|a [|b L] IH]; [easy| |].
  - intros [->|[]]. apply Rle_refl.
  - intros H. change (f x <= Rmax (f a) (Rgreatest (b :: L) f)).
    destruct H as [->|H]; [apply Rmax_l|]. apply (Rle_trans _ (Rgreatest (b :: L) f)); [auto|apply Rmax_r].
Qed.

Lemma Rgreatest_reached L f : L <> [] -> exists x, In x L /\ Rgreatest L f = f x.
Proof.
  induction L as [|a [|b L] IH]; intros N; [easy| |].
  - exists a. simpl. auto.
  - destruct IH as (x & Hx & E); [easy|]. change (exists y, In y (a :: b :: L) /\ Rmax (f a) (Rgreatest (b :: L) f) = f y).
    unfold Rmax. destruct (Rle_dec _ _).
    + exists x. split; [right; assumption|assumption].
    + exists a. split; [left; reflexivity|reflexivity].
Qed.
End Over.

Lemma Rsum_map {A B} (h : A -> B) (L : list A) f : Rsum (map h L) f = Rsum L (fun x => f (h x)).
Proof. induction L; simpl; [easy|now rewrite IHL]. Qed.

Lemma Rsum_flat_map {A B} (h : A -> list B) (L : list A) f : Rsum (flat_map h L) f = Rsum L (fun x => Rsum (h x) f).
Proof. induction L; simpl; [easy|now rewrite Rsum_app, IHL]. Qed.

Lemma Rsum_swap {A B} (L : list A) (M : list B) (f : A -> B -> R) :
  Rsum L (fun x => Rsum M (f x)) = Rsum M (fun y => Rsum L (fun x => f x y)).
Proof.
  induction L; simpl.
  - induction M; simpl; [easy|rewrite <- IHM; ring].
  - rewrite IHL. symmetry. apply Rsum_plus.
Qed.

(** Terms are rewritten where they stand. *)
Global Instance Rsum_terms {A} (L : list A) : Proper (pointwise_relation A eq ==> eq) (Rsum L).
Proof. intros f g H. apply Rsum_ext. intros x _. apply H. Qed.
Global Instance Rgreatest_terms {A} (L : list A) : Proper (pointwise_relation A eq ==> eq) (Rgreatest L).
Proof. intros f g H. apply Rgreatest_ext. intros x _. apply H. Qed.
Global Instance Rprod_terms {A} (L : list A) : Proper (pointwise_relation A eq ==> eq) (Rprod L).
Proof. intros f g H. apply Rprod_ext. intros x _. apply H. Qed.
