(* Even numbers, and the square root of two. *)
From Coq Require Import Arith Lia List Bool.
Import ListNotations.

Inductive even : nat -> Prop := even0 : even 0 | even2 : forall n, even n -> even (S (S n)).

Definition part1 : Prop := forall n, even n <-> exists k, n = 2 * k.
Definition part2 : Prop := forall n, even (n * n) -> even n.
Definition part3 : Prop := forall p q, p * p = 2 * (q * q) -> q = 0.
