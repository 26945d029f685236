(* Mirrored trees. *)
From Coq Require Import Arith Lia List Bool.
Import ListNotations.

Inductive tree (A : Type) : Type := leaf : tree A | node : tree A -> A -> tree A -> tree A.
Arguments leaf {A}.
Arguments node {A}.
Fixpoint mirror {A} (t : tree A) : tree A :=
  match t with leaf => leaf | node l x r => node (mirror r) x (mirror l) end.
Fixpoint listed {A} (t : tree A) : list A :=
  match t with leaf => [] | node l x r => listed l ++ x :: listed r end.
Fixpoint onto {A} (t : tree A) (acc : list A) : list A :=
  match t with leaf => acc | node l x r => onto l (x :: onto r acc) end.

Definition part1 : Prop := forall A (t : tree A), mirror (mirror t) = t.
Definition part2 : Prop := forall A (t : tree A), listed (mirror t) = rev (listed t).
Definition part3 : Prop := forall A (t : tree A), onto t [] = listed t.
