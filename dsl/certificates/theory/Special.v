(** Facts about functions that are integrals. *)
Require Import Reals List.
From Coquelicot Require Hierarchy RInt.
From Hnf Require Import Tensors.
Open Scope R_scope.

Lemma gaussian_integrable a b : RInt.ex_RInt (V := Hierarchy.R_NormedModule) (fun t => exp (- (t * t))) a b.
Proof.
  apply (RInt.ex_RInt_continuous (V := Hierarchy.R_CompleteNormedModule)). intros z _.
  apply Hierarchy.continuity_pt_filterlim, derivable_continuous_pt.
  assert (D : derivable (fun t => exp (- (t * t)))) by (unfold derivable; intros; reg). apply D.
Qed.

Lemma erf_opp x : erf (- x) = - erf x.
Proof.
  pose proof (RInt.RInt_correct (V := Hierarchy.R_CompleteNormedModule) _ 0 (- x) (gaussian_integrable 0 (- x))) as C.
  rewrite <- Ropp_0 in C at 1. apply RInt.is_RInt_comp_opp, RInt.is_RInt_opp in C.
  apply (RInt.is_RInt_ext (V := Hierarchy.R_NormedModule) _ (fun t => exp (- (t * t)))) in C.
  2: { intros t _. change (- - exp (- (- t * - t)) = exp (- (t * t))). rewrite Ropp_involutive. f_equal. ring. }
  apply (RInt.is_RInt_unique (V := Hierarchy.R_CompleteNormedModule)) in C.
  unfold erf, integral. rewrite C. unfold Hierarchy.opp. cbn. ring.
Qed.
