(* A compiler of expressions for a machine with a stack. *)
From Coq Require Import Arith Lia List Bool.
Import ListNotations.

Inductive expr : Type := const (n : nat) | plus (a b : expr) | times (a b : expr).
Inductive instr : Type := push (n : nat) | add | mul.
Fixpoint eval (e : expr) : nat :=
  match e with const n => n | plus a b => eval a + eval b | times a b => eval a * eval b end.
Fixpoint compile (e : expr) : list instr :=
  match e with
  | const n => [push n]
  | plus a b => compile a ++ compile b ++ [add]
  | times a b => compile a ++ compile b ++ [mul]
  end.
Fixpoint run (p : list instr) (s : list nat) : option (list nat) :=
  match p with
  | [] => Some s
  | push n :: q => run q (n :: s)
  | add :: q => match s with y :: x :: t => run q (x + y :: t) | _ => None end
  | mul :: q => match s with y :: x :: t => run q (x * y :: t) | _ => None end
  end.
Fixpoint fold (e : expr) : expr :=
  match e with
  | const n => const n
  | plus a b => match fold a, fold b with const 0, c => c | c, const 0 => c | c, d => plus c d end
  | times a b => times (fold a) (fold b)
  end.

Definition part1 : Prop := forall p q s,
  run (p ++ q) s = match run p s with Some t => run q t | None => None end.
Definition part2 : Prop := forall e, run (compile e) [] = Some [eval e].
Definition part3 : Prop := forall e, eval (fold e) = eval e.
