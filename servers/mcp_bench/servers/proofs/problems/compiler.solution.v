From Coq Require Import Arith Lia List Bool.
Import ListNotations.
From Task Require Import Problem.

Theorem part1 : Problem.part1.
Proof.
  intros p; induction p as [|i p IH]; intros q s; [reflexivity|].
  destruct i; simpl; [apply IH| |]; destruct s as [|y [|x t]]; auto.
Qed.
Lemma onto : forall e p s, run (compile e ++ p) s = run p (eval e :: s).
Proof.
  induction e; intros p s; simpl; [reflexivity| |];
    rewrite <- !app_assoc, IHe1, IHe2; reflexivity.
Qed.
Theorem part2 : Problem.part2.
Proof. intro e. rewrite <- (app_nil_r (compile e)). apply onto. Qed.
Theorem part3 : Problem.part3.
Proof.
  intro e; induction e; simpl; [reflexivity| |simpl; congruence].
  rewrite <- IHe1, <- IHe2.
  destruct (fold e1) as [[|n]| |]; destruct (fold e2) as [[|m]| |]; simpl; lia.
Qed.
