(* Sums of numbers, of odd numbers and of cubes. *)
From Coq Require Import Arith Lia List Bool.
Import ListNotations.

Fixpoint sum (f : nat -> nat) (n : nat) : nat :=
  match n with 0 => 0 | S m => sum f m + f n end.

Definition part1 : Prop := forall n, 2 * sum (fun i => i) n = n * (n + 1).
Definition part2 : Prop := forall n, sum (fun i => 2 * i - 1) n = n * n.
Definition part3 : Prop := forall n,
  sum (fun i => i * i * i) n = sum (fun i => i) n * sum (fun i => i) n.
