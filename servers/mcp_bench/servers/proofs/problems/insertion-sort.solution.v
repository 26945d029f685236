From Coq Require Import Arith Lia List Bool.
Import ListNotations.
From Task Require Import Problem.

Lemma count_insert : forall l x y, count x (insert y l) = (if x =? y then 1 else 0) + count x l.
Proof.
  induction l as [|z r IH]; intros x y; simpl; [reflexivity|].
  destruct (y <=? z); simpl; [reflexivity|]. rewrite IH. lia.
Qed.
Theorem part1 : Problem.part1.
Proof. intros l x; induction l; simpl; [reflexivity|]. rewrite count_insert. now rewrite IHl. Qed.
Lemma sorted_insert : forall l x, sorted l -> sorted (insert x l).
Proof.
  induction l as [|y r IH]; intros x H; simpl; [auto|].
  destruct (Nat.leb_spec x y); [simpl in *; auto|].
  destruct H as [H G]. specialize (IH x G). split; [|exact IH].
  destruct r as [|z r]; simpl; [lia|]. destruct (x <=? z); lia.
Qed.
Theorem part2 : Problem.part2.
Proof. intro l; induction l; simpl; [exact I|]. now apply sorted_insert. Qed.
Lemma sort_sorted : forall l, sorted l -> sort l = l.
Proof.
  induction l as [|x r IH]; intro H; [reflexivity|]. destruct H as [H G]. simpl. rewrite (IH G).
  destruct r as [|y r]; simpl; [reflexivity|]. now rewrite (proj2 (Nat.leb_le x y) H).
Qed.
Theorem part3 : Problem.part3.
Proof. intro l. apply sort_sorted, part2. Qed.
