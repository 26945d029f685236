(* Search trees. *)
From Coq Require Import Arith Lia List Bool.
Import ListNotations.

Inductive tree : Type := leaf | node (l : tree) (k : nat) (r : tree).
Fixpoint insert (x : nat) (t : tree) : tree :=
  match t with
  | leaf => node leaf x leaf
  | node l k r => if x <? k then node (insert x l) k r else if k <? x then node l k (insert x r) else t
  end.
Fixpoint member (x : nat) (t : tree) : bool :=
  match t with
  | leaf => false
  | node l k r => if x <? k then member x l else if k <? x then member x r else true
  end.
Fixpoint all (P : nat -> Prop) (t : tree) : Prop :=
  match t with leaf => True | node l k r => P k /\ all P l /\ all P r end.
Fixpoint ordered (t : tree) : Prop :=
  match t with leaf => True | node l k r => all (fun x => x < k) l /\ all (fun x => k < x) r /\ ordered l /\ ordered r end.
Fixpoint inside (x : nat) (t : tree) : Prop :=
  match t with leaf => False | node l k r => x = k \/ inside x l \/ inside x r end.

Definition part1 : Prop := forall t x y, member y (insert x t) = (y =? x) || member y t.
Definition part2 : Prop := forall t x, ordered t -> ordered (insert x t).
Definition part3 : Prop := forall t x, ordered t -> (member x t = true <-> inside x t).
