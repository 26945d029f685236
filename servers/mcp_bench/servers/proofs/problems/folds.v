(* Folds from the left and from the right. *)
From Coq Require Import Arith Lia List Bool.
Import ListNotations.

Definition part1 : Prop := forall A B C (f : A -> B) (g : B -> C) l, map g (map f l) = map (fun x => g (f x)) l.
Definition part2 : Prop := forall A (l : list A), fold_right cons [] l = l /\ fold_left (fun r x => x :: r) l [] = rev l.
Definition part3 : Prop := forall A (f : A -> A -> A) e,
  (forall x y z, f x (f y z) = f (f x y) z) -> (forall x, f e x = x /\ f x e = x) ->
  forall l, fold_left f l e = fold_right f e l.
