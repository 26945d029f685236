From Coq Require Import Arith Lia List Bool.
Import ListNotations.
From Task Require Import Problem.

Theorem part1 : Problem.part1.
Proof. intros A l m; induction l; simpl. now rewrite app_nil_r. now rewrite IHl, app_assoc. Qed.
Theorem part2 : Problem.part2.
Proof. intros A l; induction l; simpl; [reflexivity|]. rewrite part1. simpl. now rewrite IHl. Qed.
Theorem part3 : Problem.part3.
Proof. intros A l; induction l; intro acc; simpl; [reflexivity|]. rewrite IHl, <- app_assoc. reflexivity. Qed.
