(* Fibonacci numbers, computed slowly and fast. *)
From Coq Require Import Arith Lia List Bool.
Import ListNotations.

Fixpoint fib (n : nat) : nat :=
  match n with 0 => 0 | S m => match m with 0 => 1 | S k => fib m + fib k end end.
Fixpoint loop (n a b : nat) : nat :=
  match n with 0 => a | S m => loop m b (a + b) end.
Fixpoint total (n : nat) : nat :=
  match n with 0 => 0 | S m => total m + fib n end.

Definition part1 : Prop := forall n, total n + 1 = fib (n + 2).
Definition part2 : Prop := forall n, loop n 0 1 = fib n.
Definition part3 : Prop := forall m n, fib (S (m + n)) = fib (S m) * fib (S n) + fib m * fib n.
