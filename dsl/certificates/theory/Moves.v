(** Movement along an axis: bounds as integers, reductions over parts of an axis, and elements by their positions. *)
Require Import Reals List Arith ZArith Lia ZifyBool Lra FunctionalExtensionality.
From Hnf Require Import Tensors Sums Indices Shapes Scalars Reductions.
Import ListNotations.
Open Scope R_scope.

(** * Bounds *)
Lemma Int_part_IZR z : Int_part (IZR z) = z.
Proof. unfold Int_part. rewrite <- (tech_up (IZR z) (z + 1)); rewrite ?plus_IZR; [lia|lra|lra]. Qed.
Lemma whole_number c : c = IZR (Int_part c) -> exists z, c = IZR z.
Proof. intros E. now exists (Int_part c). Qed.
Lemma count_one q s : count [q] s = IZR (Z.of_nat (s q)).
Proof. unfold count. cbn [fold_right]. rewrite INR_IZR_INZ. ring. Qed.

(** * Reductions along one axis *)
Lemma upd_same i q n : upd i q n q = n.
Proof. unfold upd. now rewrite Nat.eqb_refl. Qed.
Lemma upd_other i q n a : a <> q -> upd i q n a = i a.
Proof. intros N. unfold upd. destruct (Nat.eqb_spec a q); easy. Qed.
Lemma upd_again i q m n : upd (upd i q m) q n = upd i q n.
Proof. apply functional_extensionality. intros a. unfold upd. now destruct (a =? q). Qed.

Lemma box_axis q s i : box [q] s i = map (upd i q) (seq 0 (s q)).
Proof. cbn [box]. induction (seq 0 (s q)); cbn; [easy|now f_equal]. Qed.
Lemma seq_from m n b : seq (m + b) n = map (fun c => (m + c)%nat) (seq b n).
Proof. revert b. induction n as [|n IH]; intros b; cbn; [easy|]. f_equal. rewrite <- IH. f_equal. lia. Qed.
Lemma seq_parts m n : seq 0 (m + n) = seq 0 m ++ map (fun c => (m + c)%nat) (seq 0 n).
Proof. rewrite seq_app, <- seq_from, Nat.add_0_r. easy. Qed.
Lemma seq_turned n : map (fun c => (n - 1 - c)%nat) (seq 0 n) = rev (seq 0 n).
Proof.
  induction n as [|n IH]; [easy|]. rewrite seq_S at 2. rewrite rev_app_distr. cbn [rev app seq map]. f_equal; [lia|].
  rewrite <- IH, <- seq_shift, map_map. apply map_ext. intros. lia.
Qed.

Lemma Rgreatest_map {A B} (h : A -> B) (L : list A) f : Rgreatest (map h L) f = Rgreatest L (fun x => f (h x)).
Proof.
  induction L as [|a [|b L] IH]; [easy|easy|].
  change (Rmax (f (h a)) (Rgreatest (map h (b :: L)) f) = Rmax (f (h a)) (Rgreatest (b :: L) (fun x => f (h x)))). now rewrite IH.
Qed.
Lemma Rgreatest_app {A} (L M : list A) f : L <> [] -> M <> [] -> Rgreatest (L ++ M) f = Rmax (Rgreatest L f) (Rgreatest M f).
Proof.
  intros NL NM. induction L as [|a [|b L] IH]; [easy| |].
  - destruct M; easy.
  - change (Rmax (f a) (Rgreatest ((b :: L) ++ M) f) = Rmax (Rmax (f a) (Rgreatest (b :: L) f)) (Rgreatest M f)).
    rewrite IH by easy. apply Rmax_assoc.
Qed.
Lemma Rgreatest_same {A B} (L : list A) (M : list B) f g :
  (forall x, In x L -> exists y, In y M /\ f x = g y) -> (forall y, In y M -> exists x, In x L /\ f x = g y) ->
  Rgreatest L f = Rgreatest M g.
Proof.
  intros P Q. destruct L as [|a L].
  - destruct M as [|b M]; [easy|]. destruct (Q b) as (x & [] & _). now left.
  - assert (NM : M <> []) by (destruct (P a) as (y & Hy & _); [now left|]; intros ->; easy).
    destruct (Rgreatest_reached (a :: L) f) as (x & Hx & Ex); [easy|]. destruct (Rgreatest_reached M g NM) as (y & Hy & Ey).
    destruct (P x Hx) as (y' & Hy' & E). destruct (Q y Hy) as (x' & Hx' & E').
    pose proof (Rgreatest_bound M g y' Hy'). pose proof (Rgreatest_bound (a :: L) f x' Hx'). lra.
Qed.

(** * Opposite order *)
Lemma Rsum_rev {A} (L : list A) f : Rsum (rev L) f = Rsum L f.
Proof. induction L; cbn; [easy|]. rewrite Rsum_app, IHL. cbn. ring. Qed.

Lemma box_upd a k s i m : ~ In a k -> map (fun j => upd j a m) (box k s i) = box k s (upd i a m).
Proof.
  revert i. induction k as [|b k IH]; intros i N; cbn [box]; [easy|].
  induction (seq 0 (s b)) as [|n L IHL]; cbn; [easy|]. rewrite map_app, IHL, IH by (cbn in N; tauto). do 2 f_equal.
  apply functional_extensionality. intros c. unfold upd. destruct (Nat.eqb_spec c a), (Nat.eqb_spec c b); subst; try easy. cbn in N. tauto.
Qed.

Lemma Rsum_turned k s i f : NoDup k -> Rsum (box k s i) (fun j => f (turned k s j)) = Rsum (box k s i) f.
Proof.
  revert i f. induction k as [|a k IH]; intros i f D; [easy|]. inversion D; subst. cbn [box]. rewrite !Rsum_flat_map.
  transitivity (Rsum (seq 0 (s a)) (fun n => Rsum (box k s (upd i a (s a - 1 - n))) f)).
  - apply Rsum_ext. intros n _. rewrite <- (upd_again i a n (s a - 1 - n)), <- (box_upd a k s (upd i a n)), Rsum_map by easy.
    rewrite <- (IH _ (fun j => f (upd j a (s a - 1 - n)))) by easy. apply Rsum_ext. intros j Hj. f_equal.
    apply functional_extensionality. intros b. unfold turned, upd, mem. cbn [existsb]. destruct (Nat.eqb_spec b a); [subst|easy].
    cbn. rewrite (box_outside _ _ _ _ Hj a) by easy. now rewrite upd_same.
  - rewrite <- (Rsum_map (fun n => (s a - 1 - n)%nat) _ (fun n => Rsum (box k s (upd i a n)) f)), seq_turned. apply Rsum_rev.
Qed.

Lemma box_complete k s i j : (forall a, ~ In a k -> j a = i a) -> (forall a, In a k -> (j a < s a)%nat) -> In j (box k s i).
Proof.
  revert i. induction k as [|a k IH]; intros i O I; cbn [box].
  - left. apply functional_extensionality. intros. symmetry. now apply O.
  - apply in_flat_map. exists (j a). split; [apply in_seq; specialize (I a); cbn in I; lia|]. apply IH.
    + intros b N. unfold upd. destruct (Nat.eqb_spec b a); [now subst|]. apply O. cbn. intros [|]; congruence.
    + intros b H. apply I. now right.
Qed.

Lemma turned_in k s i j : In j (box k s i) -> In (turned k s j) (box k s i) /\ turned k s (turned k s j) = j.
Proof.
  intros H. split.
  - apply box_complete; intros a Ha; unfold turned.
    + destruct (mem a k) eqn:E; [apply mem_In in E; easy|]. now apply (box_outside _ _ _ _ H).
    + apply mem_In in Ha as E. rewrite E. pose proof (box_inside _ _ _ _ H a Ha). lia.
  - apply functional_extensionality. intros a. unfold turned. destruct (mem a k) eqn:E; [|easy].
    apply mem_In in E. pose proof (box_inside _ _ _ _ H a E). lia.
Qed.

Lemma Rgreatest_turned k s i f : Rgreatest (box k s i) (fun j => f (turned k s j)) = Rgreatest (box k s i) f.
Proof.
  apply Rgreatest_same; intros j H; destruct (turned_in k s i j H) as [T E]; exists (turned k s j); [easy|now rewrite E].
Qed.

(** * Tactics *)
Lemma resized_same q n s : resized q n s q = n.
Proof. unfold resized. now rewrite Nat.eqb_refl. Qed.
Lemma sliced_one a b : sliced a b 1 = Z.to_nat (b - a).
Proof. unfold sliced. rewrite Z.div_1_r. f_equal. lia. Qed.

(** A condition on numbers only holds without an index. *)
Ltac constant_conditions := repeat match goal with
  | H : forall j : index, within (fun _ => 1%nat) j -> _ |- _ => specialize (H (fun _ => 0%nat) (fun _ => or_introl eq_refl)); parts
  end; booleans; repeat match goal with
  | H : IZR _ <= IZR _ |- _ => apply le_IZR in H
  | H : IZR _ < IZR _ |- _ => apply lt_IZR in H
  end.

(** Bounds as integers. *)
Ltac whole_numbers := match goal with
  | H : _ = IZR (Int_part _) |- _ =>
      repeat match goal with
      | H : ?c = IZR (Int_part ?c) |- _ => is_var c; destruct (whole_number c H) as [? ->]
      end; repeat match goal with H : nat -> _ = _ |- _ => clear H end;
      rewrite ?count_one, <- ?plus_IZR, <- ?minus_IZR, ?Int_part_IZR, ?sliced_one, ?resized_same in *; constant_conditions
  | _ => idtac
  end.

Ltac spread := unfold clip, upd, along, resized, turned, bcast, joined, reduced, mem in *; cbn [existsb] in *.
Ltac equal_or_not := repeat match goal with
  | |- context [Nat.eqb ?m ?n] => destruct (Nat.eqb_spec m n); [try subst|]
  | |- context [existsb ?f ?k] => destruct (existsb f k)
  end; cbn [orb]; intros; first [easy | lia].

(** Sizes along an axis on which elements move. *)
Ltac moved_sizes := let a := fresh "a" in introduce a; first [sizes_at a | destruct a as [|[|a]]; sizes_at a]
with sizes_at a := solve [repeat match goal with
  | H : fits _ _ |- _ => generalize (H a); clear H
  | H : nonempty _ |- _ => clear H
  | H : forall _ : nat, _ |- _ => generalize (H a); clear H
  end; spread; equal_or_not].

(** Two indices that agree where they are read. *)
Ltac same_place :=
  let a := fresh "a" in apply functional_extensionality; intros a; repeat match goal with
  | H : within _ _ |- _ => generalize (H a); clear H
  | H : forall _ : nat, _ |- _ => generalize (H a); clear H
  | H : @eq bool _ _ |- _ => revert H
  end; spread; equal_or_not.
Ltac same_places := repeat match goal with
  | |- context [clip ?s ?p] => match goal with |- context [clip s ?q] =>
      tryif constr_eq p q then fail else (replace (clip s q) with (clip s p) by same_place) end
  end.

(** The branches of a movement: the one that is taken at a known position, else both. *)
Ltac by_positions := unfold along, resized, upd in *; rewrite ?Nat.eqb_refl in *; cbn [Nat.eqb] in *; repeat match goal with
  | |- context [Nat.eqb ?m ?n] => destruct (Nat.eqb_spec m n)
  | H : context [Nat.eqb ?m ?n] |- _ => destruct (Nat.eqb_spec m n)
  end; lia.
Ltac decide_branches := repeat match goal with
  | |- context [if ?b then _ else _] => first [replace b with true by by_positions | replace b with false by by_positions]
  end.
Ltac both_branches := repeat match goal with
  | |- context [if ?b then _ else _] => let E := fresh "E" in destruct b eqn:E
  end.
Ltac position_here := match goal with
  | W : within ?s ?i |- context [along ?q _ _] =>
      let K := fresh "K" in pose proof (W q) as K; unfold reduced, resized, bcast, joined, mem in K; rewrite ?Nat.eqb_refl in K; cbn in K
  | _ => idtac
  end.

(** Sums and greatest values over the parts of an axis. *)
Lemma seq_some n : n <> 0%nat -> seq 0 n <> [].
Proof. destruct n; easy. Qed.
Lemma map_some {A B} (h : A -> B) L : L <> [] -> map h L <> [].
Proof. destruct L; easy. Qed.
Ltac axis_in_parts :=
  rewrite ?box_axis, ?Rsum_map, ?Rgreatest_map, ?resized_same; cbv beta; repeat match goal with
  | |- context [seq 0 (Z.to_nat (?a + Z.of_nat ?n + ?b))] =>
      replace (Z.to_nat (a + Z.of_nat n + b)) with (Z.to_nat a + (n + Z.to_nat b))%nat by lia
  | |- context [Rsum (seq 0 (?m + ?n)) ?f] => rewrite (seq_parts m n), Rsum_app, Rsum_map
  | |- context [Rgreatest (seq 0 (?m + ?n)) ?f] =>
      rewrite (seq_parts m n), Rgreatest_app, Rgreatest_map by first [apply seq_some; auto | apply map_some, seq_some; auto]
  end.
Ltac at_each c := let Hc := fresh "Hc" in intros c Hc; apply in_seq in Hc; cbv beta.
Ltac decide_terms := repeat match goal with
  | |- context [Rsum ?L ?f] =>
      let E := fresh "E" in let c := fresh "c" in
      eassert (E : Rsum L f = Rsum L _) by (apply Rsum_ext; at_each c; left_side ltac:(progress decide_branches)); rewrite E; clear E
  | |- context [Rgreatest ?L ?f] =>
      let E := fresh "E" in let c := fresh "c" in
      eassert (E : Rgreatest L f = Rgreatest L _) by (apply Rgreatest_ext; at_each c; left_side ltac:(progress decide_branches)); rewrite E; clear E
  end.
(** Terms that do not vary along an axis of size 1. *)
Lemma INR_to_nat z : (0 <= z)%Z -> INR (Z.to_nat z) = IZR z.
Proof. intros. rewrite INR_IZR_INZ. f_equal. lia. Qed.
Ltac constant_terms := repeat match goal with
  | |- context [Rsum ?L ?f] =>
      let E := fresh "E" in let c := fresh "c" in
      eassert (E : Rsum L f = Rsum L (fun _ => _)) by (apply Rsum_ext; at_each c; left_side ltac:(progress unread)); rewrite E; clear E
  end; rewrite ?Rsum_const, ?seq_length, ?INR_to_nat by lia.

Ltac same_terms := repeat match goal with
  | |- context [Rsum ?L ?f] => match goal with |- context [Rsum L ?g] =>
      tryif constr_eq f g then fail else (rewrite (Rsum_ext L g f) by (let c := fresh "c" in at_each c; same_places; by_field)) end
  | |- context [Rgreatest ?L ?f] => match goal with |- context [Rgreatest L ?g] =>
      tryif constr_eq f g then fail else (rewrite (Rgreatest_ext L g f) by (let c := fresh "c" in at_each c; same_places; by_field)) end
  end.

Ltac turned_reduction := match goal with
  | N : NoDup ?k |- Rsum (box ?k ?s ?i) ?f = _ => rewrite <- (Rsum_turned k s i f N); reflexivity
  | |- Rgreatest (box ?k ?s ?i) ?f = _ => rewrite <- (Rgreatest_turned k s i f); reflexivity
  end.

(** Elements that were moved, and bounds. *)
Ltac moved := match goal with
  | |- (_ <= _)%Z => lia
  | |- IZR _ = IZR _ => reflexivity
  | |- context [turned] => first [turned_reduction | symmetry; turned_reduction | same_places; by_field]
  | |- context [along] => first
      [ solve [position_here; decide_branches; same_places; by_field]
      | solve [axis_in_parts; decide_terms; same_terms; rewrite ?Rsum_const; by_field]
      | solve [both_branches; first [same_places; by_field | exfalso; by_positions | decide_terms; same_terms; by_field]] ]
  | |- context [resized] => solve [axis_in_parts; constant_terms; by_field]
  end.
