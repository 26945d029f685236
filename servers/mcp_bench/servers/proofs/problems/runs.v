(* Run-length encoding. *)
From Coq Require Import Arith Lia List Bool.
Import ListNotations.

Fixpoint expand (l : list (nat * nat)) : list nat :=
  match l with [] => [] | (n, x) :: r => repeat x (S n) ++ expand r end.
Definition onto (x : nat) (l : list (nat * nat)) : list (nat * nat) :=
  match l with
  | [] => [(0, x)]
  | (n, y) :: r => if x =? y then (S n, y) :: r else (0, x) :: l
  end.
Fixpoint pack (l : list nat) : list (nat * nat) :=
  match l with [] => [] | x :: r => onto x (pack r) end.
Fixpoint tight (l : list (nat * nat)) : Prop :=
  match l with
  | [] => True
  | (_, x) :: r => match r with [] => True | (_, y) :: _ => x <> y end /\ tight r
  end.

Definition part1 : Prop := forall l, expand (pack l) = l.
Definition part2 : Prop := forall l, tight (pack l).
Definition part3 : Prop := forall l, tight l -> pack (expand l) = l.
