(** Indices: what a reduction runs over, and what does not vary there. *)
Require Import Reals List Arith Lia Lra FunctionalExtensionality.
From Hnf Require Import Tensors Sums.
Import ListNotations.
Open Scope R_scope.

Lemma mem_In a k : mem a k = true <-> In a k.
Proof.
  unfold mem. rewrite existsb_exists. split.
  - intros (x & Hx & E). apply Nat.eqb_eq in E. now subst.
  - intros H. exists a. now rewrite Nat.eqb_refl.
Qed.

Lemma mem_app a j k : mem a (j ++ k) = (mem a j || mem a k)%bool.
Proof. apply existsb_app. Qed.

Lemma box_ext k s t i : (forall a, In a k -> s a = t a) -> box k s i = box k t i.
Proof.
  revert i. induction k as [|a k IH]; intros i H; simpl; [easy|].
  rewrite (H a) by (simpl; auto). apply flat_map_ext. intros n. apply IH. intros. apply H. simpl. auto.
Qed.

Lemma box_app j k s i : box (j ++ k) s i = flat_map (box k s) (box j s i).
Proof.
  revert i. induction j as [|a j IH]; intros i; simpl; [now rewrite app_nil_r|].
  induction (seq 0 (s a)) as [|n L IHL]; simpl; [easy|].
  now rewrite IH, IHL, flat_map_app.
Qed.

(** What lies in a box agrees outside its axes, and lies in the shape along them. *)
Lemma box_outside k s i j : In j (box k s i) -> forall a, ~ In a k -> j a = i a.
Proof.
  revert i. induction k as [|b k IH]; simpl; intros i H a N; [destruct H as [->|[]]; easy|].
  apply in_flat_map in H. destruct H as (n & _ & H). rewrite (IH _ H a) by tauto.
  unfold upd. destruct (Nat.eqb_spec a b); [subst; tauto|easy].
Qed.

Lemma box_inside k s i j : In j (box k s i) -> forall a, In a k -> (j a < s a)%nat.
Proof.
  revert i. induction k as [|b k IH]; simpl; intros i H a Ha; [easy|].
  apply in_flat_map in H. destruct H as (n & Hn & H). apply in_seq in Hn.
  destruct (in_dec Nat.eq_dec a k) as [K|K]; [eauto|]. destruct Ha as [->|]; [|easy].
  rewrite (box_outside _ _ _ _ H a K). unfold upd. rewrite Nat.eqb_refl. lia.
Qed.

Lemma clip_free k s t i j : free k s -> In j (box k t i) -> clip s j = clip s i.
Proof.
  intros F H. apply functional_extensionality. intros a. unfold clip.
  destruct (Nat.eqb_spec (s a) 1); [easy|]. apply (box_outside _ _ _ _ H). intros K. specialize (F a K). lia.
Qed.

Lemma box_length k s i : INR (length (box k s i)) = count k s.
Proof.
  revert i. induction k as [|a k IH]; intros i; simpl; [lra|].
  assert (G : forall b, INR (length (flat_map (fun n => box k s (upd i a n)) (seq b (s a)))) = INR (s a) * count k s).
  { induction (s a) as [|m IHm]; intros b; [simpl; lra|].
    cbn [seq flat_map]. rewrite app_length, plus_INR, IH, IHm, S_INR. unfold count. lra. }
  apply G.
Qed.

Lemma box_nonempty k s i : nonempty s -> box k s i <> [].
Proof.
  intros N. revert i. induction k as [|a k IH]; intros i; simpl; [easy|].
  specialize (N a). destruct (s a) as [|m]; [easy|]. simpl. intros E. apply app_eq_nil in E. destruct E as [E _]. now apply IH in E.
Qed.

(** Reading at two indices of one box: inner boxes start from the same places. *)
Lemma box_again k s t i j : In j (box k t i) -> NoDup k -> box k s j = box k s i.
Proof.
  intros H D. revert i j H. induction k as [|a k IH]; intros i j H; simpl in *.
  - now destruct H as [->|[]].
  - apply in_flat_map in H. destruct H as (n & _ & H). inversion D; subst.
    apply flat_map_ext. intros m. 
    assert (E : forall i j, (forall b, ~ In b k -> i b = j b) -> box k s i = box k s j).
    { clear. induction k as [|c k IH]; intros i j E; simpl.
      - f_equal. apply functional_extensionality. intros; apply E; easy.
      - apply flat_map_ext. intros m. apply IH. intros b N. unfold upd.
        destruct (Nat.eqb_spec b c); [easy|]. apply E. simpl. intros [->|]; tauto. }
    apply E. intros b N. unfold upd. destruct (Nat.eqb_spec b a); [easy|].
    rewrite (box_outside _ _ _ _ H b N). unfold upd. destruct (Nat.eqb_spec b a); easy.
Qed.

Lemma count_ext k s t : (forall a, In a k -> s a = t a) -> count k s = count k t.
Proof. induction k; simpl; intros H; [easy|]. rewrite H, IHk; auto. Qed.

Lemma count_positive k s : nonempty s -> 0 < count k s.
Proof.
  intros N. induction k; simpl; [lra|]. apply Rmult_lt_0_compat; [|easy]. apply lt_0_INR. specialize (N a). lia.
Qed.

Lemma count_nonneg k s : 0 <= count k s.
Proof. induction k; simpl; [lra|]. apply Rmult_le_pos; [apply pos_INR|exact IHk]. Qed.

Lemma some_element {A} (L : list A) : L <> [] -> exists x, In x L.
Proof. destruct L as [|x L]; [easy|]. exists x. now left. Qed.

Lemma count_of_element k s i j : In j (box k s i) -> count k s <> 0.
Proof.
  intros H. rewrite <- (box_length k s i). destruct (box k s i) as [|x L]; [destruct H|].
  change (INR (S (length L)) <> 0). apply not_0_INR. lia.
Qed.

Lemma box_or_count k s i : box k s i = [] \/ count k s <> 0.
Proof. destruct (box k s i) as [|x L] eqn:E; [now left|right]. apply (count_of_element k s i x). rewrite E. now left. Qed.

(** Axes that are named apart are apart. *)
Lemma apart {A} (j k : list A) a : NoDup (j ++ k) -> In a j -> ~ In a k.
Proof.
  induction j as [|b j IH]; simpl; [easy|]. intros N [->|H]; inversion N; subst; [|auto].
  intros K. apply H1, in_or_app. now right.
Qed.

Lemma box_reduced j k s i : NoDup (j ++ k) -> box j (reduced k s) i = box j s i.
Proof.
  intros N. apply box_ext. intros a H. unfold reduced. destruct (mem a k) eqn:E; [|easy].
  apply mem_In in E. now apply (apart _ _ _ N) in H.
Qed.

Lemma bcast_one_r s : bcast s (fun _ => 1%nat) = s.
Proof. apply functional_extensionality. intros a. unfold bcast, joined. destruct (Nat.eqb_spec (s a) 1); [now symmetry|easy]. Qed.

Lemma bcast_one_l s : bcast (fun _ => 1%nat) s = s.
Proof. easy. Qed.
