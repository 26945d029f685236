From Coq Require Import Arith Lia List Bool.
Import ListNotations.
From Task Require Import Problem.

Theorem part1 : Problem.part1.
Proof. intros A B C f g l. apply map_map. Qed.
Lemma onto : forall A (l acc : list A), fold_left (fun r x => x :: r) l acc = rev l ++ acc.
Proof. intros A l; induction l; intro acc; simpl; [reflexivity|]. now rewrite IHl, <- app_assoc. Qed.
Theorem part2 : Problem.part2.
Proof. intros A l; split; [induction l; simpl; congruence|]. rewrite onto. apply app_nil_r. Qed.
Theorem part3 : Problem.part3.
Proof.
  intros A f e assoc unit l.
  assert (H : forall l a, fold_left f l a = f a (fold_right f e l)).
  { clear l; intro l; induction l as [|x r IH]; intro a; simpl; [symmetry; apply unit|]. rewrite IH. now rewrite assoc. }
  rewrite H. apply unit.
Qed.
