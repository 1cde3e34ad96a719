(** Goals about sizes, axis by axis. *)
Require Import Reals List Arith Lia.
From Hnf Require Import Tensors Indices.
Import ListNotations.
Open Scope R_scope.

Lemma joined_one (n : nat) : joined 1 n = n.
Proof. easy. Qed.
Lemma joined_other (m n : nat) : m <> 1%nat -> joined m n = m.
Proof. unfold joined. destruct (Nat.eqb_spec m 1); easy. Qed.

(** A size that is broadcast is 1 or not. *)
Ltac size_cases := repeat match goal with
  | |- context [joined ?m ?n] => one_size m n
  | H : context [joined ?m ?n] |- _ => one_size m n
  end
with one_size m n :=
  lazymatch m with context [joined] => fail | _ => idtac end;
  first
  [ constr_eq m 1%nat; rewrite (joined_one n) in *
  | match goal with E : m <> 1%nat |- _ => rewrite (joined_other m n E) in * end
  | let E := fresh "E" in destruct (Nat.eq_dec m 1) as [E|E]; [try rewrite E in * |-; rewrite ?E|] ].

(** A goal about sizes along an axis, or about places on it. *)
Ltac at_axes instances :=
  repeat match goal with
  | H : fits _ _ |- _ => unfold fits in H
  | H : within _ _ |- _ => unfold within in H
  | H : free _ _ |- _ => unfold free in H
  | H : same_size _ _ _ |- _ => unfold same_size in H
  | H : rank_at_most _ _ |- _ => unfold rank_at_most in H
  | H : nonempty _ |- _ => unfold nonempty in H
  end;
  repeat match goal with
  | H : forall _ : nat, _ |- _ => instances H; clear H
  | H : In ?j (box ?k ?s ?i) |- _ => instances (box_outside k s i j H); instances (box_inside k s i j H); clear H
  | H : In _ (seq _ _) |- _ => apply in_seq in H
  end.

(** What two sizes that fit say once it is known which are 1. *)
Ltac fitting := repeat match goal with
  | H : _ \/ 1%nat = 1%nat \/ _ |- _ => clear H
  | H : _ \/ _ \/ 1%nat = 1%nat |- _ => clear H
  | H : ?m = ?n \/ ?m = 1%nat \/ ?n = 1%nat, E : ?m <> 1%nat, F : ?n <> 1%nat |- _ =>
      assert (m = n) by (destruct H as [?|[?|?]]; easy); clear H
  | H : ?m = ?m |- _ => clear H
  end.

Ltac is_true condition :=
  let b := fresh in let E := fresh in remember condition as b eqn:E in *; clear E; destruct b.
Ltac literal n := lazymatch n with 0%nat => idtac | S _ => idtac end.
Ltac sizes_only :=
  rewrite <- ?mem_In in *; unfold bcast, reduced, swap, drop, insert, upd, clip in *;
  rewrite ?mem_app in *; cbn [mem existsb Nat.eqb orb] in *;
  repeat match goal with
  | H : context [mem ?a ?k] |- _ => is_true (mem a k)
  | |- context [mem ?a ?k] => is_true (mem a k)
  | |- context [Nat.eqb ?m ?n] => literal n; destruct (Nat.eqb_spec m n)
  | H : context [Nat.eqb ?m ?n] |- _ => literal n; destruct (Nat.eqb_spec m n)
  end; cbn [orb] in *;
  repeat match goal with
  | H : true = true -> _ |- _ => specialize (H eq_refl)
  | H : false = true -> _ |- _ => clear H
  | H : ~ true = true -> _ |- _ => clear H
  | H : ~ false = true -> _ |- _ => specialize (H Bool.diff_false_true)
  end;
  size_cases; fitting;
  repeat match goal with
  | |- context [Nat.eqb ?m ?n] => destruct (Nat.eqb_spec m n)
  | H : context [Nat.eqb ?m ?n] |- _ => destruct (Nat.eqb_spec m n)
  | |- context [Nat.ltb ?m ?n] => destruct (Nat.ltb_spec m n)
  | H : context [Nat.ltb ?m ?n] |- _ => destruct (Nat.ltb_spec m n)
  end; first [easy | lia].

Ltac introduce a := match goal with
  | |- fits _ _ => unfold fits; intros a
  | |- within _ _ => unfold within; intros a
  | |- forall a : nat, _ => intros a; intros
  end.
Ltac any_axis := let a := fresh "a" in introduce a; at_axes ltac:(fun H => pose proof (H a)); sizes_only.
Ltac small := cbn [bcast reduced swap drop insert upd clip app In mem existsb orb Nat.eqb Nat.ltb Nat.leb pred].
Ltac small_in H := cbn [bcast reduced swap drop insert upd clip app In mem existsb orb Nat.eqb Nat.ltb Nat.leb pred] in H.
Ltac matrix_axes :=
  at_axes ltac:(fun H =>
    let H0 := fresh in pose proof (H 0%nat) as H0; small_in H0; let H1 := fresh in pose proof (H 1%nat) as H1; small_in H1); sizes_only.
(** The last two axes, and any other. *)
Ltac each_axis :=
  let a := fresh "a" in introduce a; destruct a as [|[|a]]; small;
  [ matrix_axes | matrix_axes | at_axes ltac:(fun H => let H0 := fresh in pose proof (H (S (S a))) as H0; small_in H0); sizes_only ].

Ltac shapes := first
  [ match goal with H : ?P |- ?P => exact H end
  | solve [let a := fresh "a" in intros a; left; reflexivity]
  | solve [any_axis] | solve [each_axis] ].

(** An equation of two sizes. *)
Ltac each_size := small; solve [assumption | symmetry; assumption | matrix_axes].
