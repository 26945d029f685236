(* Binary numbers, the lowest bit first. *)
From Coq Require Import Arith Lia List Bool.
Import ListNotations.

Fixpoint value (l : list bool) : nat :=
  match l with [] => 0 | b :: r => (if b then 1 else 0) + 2 * value r end.
Fixpoint next (l : list bool) : list bool :=
  match l with [] => [true] | false :: r => true :: r | true :: r => false :: next r end.
Fixpoint add (c : bool) (l m : list bool) : list bool :=
  match l, m with
  | [], _ => if c then next m else m
  | _, [] => if c then next l else l
  | a :: r, b :: s => xorb c (xorb a b) :: add (if c then a || b else a && b) r s
  end.

Definition part1 : Prop := forall l, value (next l) = S (value l).
Definition part2 : Prop := forall n, exists l, value l = n.
Definition part3 : Prop := forall l m c, value (add c l m) = (if c then 1 else 0) + value l + value m.
