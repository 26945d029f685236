(* Reversal of a list with an accumulator. *)
From Coq Require Import Arith Lia List Bool.
Import ListNotations.

Fixpoint slow {A} (l : list A) : list A :=
  match l with [] => [] | x :: r => slow r ++ [x] end.
Fixpoint fast {A} (l acc : list A) : list A :=
  match l with [] => acc | x :: r => fast r (x :: acc) end.

Definition part1 : Prop := forall A (l m : list A), slow (l ++ m) = slow m ++ slow l.
Definition part2 : Prop := forall A (l : list A), slow (slow l) = l.
Definition part3 : Prop := forall A (l acc : list A), fast l acc = slow l ++ acc.
