From Coq Require Import Arith Lia List Bool.
Import ListNotations.
From Task Require Import Problem.

Theorem part1 : Problem.part1.
Proof. intros A t; induction t; simpl; congruence. Qed.
Theorem part2 : Problem.part2.
Proof.
  intros A t; induction t; simpl; [reflexivity|].
  rewrite IHt1, IHt2, rev_app_distr. simpl. now rewrite <- app_assoc.
Qed.
Lemma onto_listed : forall A (t : tree A) acc, onto t acc = listed t ++ acc.
Proof. intros A t; induction t; intro acc; simpl; [reflexivity|]. now rewrite IHt1, IHt2, <- app_assoc. Qed.
Theorem part3 : Problem.part3.
Proof. intros A t. rewrite onto_listed. apply app_nil_r. Qed.
