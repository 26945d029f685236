(* Insertion sort. *)
From Coq Require Import Arith Lia List Bool.
Import ListNotations.

Fixpoint insert (x : nat) (l : list nat) : list nat :=
  match l with [] => [x] | y :: r => if x <=? y then x :: l else y :: insert x r end.
Fixpoint sort (l : list nat) : list nat :=
  match l with [] => [] | x :: r => insert x (sort r) end.
Fixpoint sorted (l : list nat) : Prop :=
  match l with [] => True | x :: r => match r with [] => True | y :: _ => x <= y end /\ sorted r end.
Fixpoint count (x : nat) (l : list nat) : nat :=
  match l with [] => 0 | y :: r => (if x =? y then 1 else 0) + count x r end.

Definition part1 : Prop := forall l x, count x (sort l) = count x l.
Definition part2 : Prop := forall l, sorted (sort l).
Definition part3 : Prop := forall l, sort (sort l) = sort l.
