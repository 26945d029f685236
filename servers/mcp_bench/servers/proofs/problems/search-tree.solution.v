From Coq Require Import Arith Lia List Bool.
Import ListNotations.
From Task Require Import Problem.

Theorem part1 : Problem.part1.
Proof.
  intros t x y; induction t as [|l IHl k r IHr]; simpl.
  - destruct (Nat.ltb_spec y x), (Nat.ltb_spec x y), (Nat.eqb_spec y x); simpl; auto; lia.
  - destruct (Nat.ltb_spec x k); [|destruct (Nat.ltb_spec k x)]; simpl;
      destruct (Nat.ltb_spec y k); try destruct (Nat.ltb_spec k y); auto;
      destruct (Nat.eqb_spec y x); simpl; auto; lia.
Qed.
Lemma all_insert : forall (P : nat -> Prop) t x, P x -> all P t -> all P (insert x t).
Proof.
  intros P t x p; induction t as [|l IHl k r IHr]; simpl; [auto|]. intros (a & b & c).
  destruct (x <? k); [|destruct (k <? x)]; simpl; auto.
Qed.
Theorem part2 : Problem.part2.
Proof.
  intros t x; induction t as [|l IHl k r IHr]; simpl; [auto|]. intros (a & b & c & d).
  destruct (Nat.ltb_spec x k); [|destruct (Nat.ltb_spec k x)]; simpl; auto using all_insert.
Qed.
Lemma all_inside : forall (P : nat -> Prop) t x, all P t -> inside x t -> P x.
Proof.
  intros P t x; induction t as [|l IHl k r IHr]; simpl; [tauto|].
  intros (a & b & c) [e|[e|e]]; subst; auto.
Qed.
Theorem part3 : Problem.part3.
Proof.
  intros t x; induction t as [|l IHl k r IHr]; simpl; [split; [discriminate|tauto]|].
  intros (a & b & c & d). specialize (IHl c). specialize (IHr d).
  pose proof (fun h => all_inside _ _ x a h) as A. pose proof (fun h => all_inside _ _ x b h) as B. simpl in A, B.
  destruct (Nat.ltb_spec x k); [|destruct (Nat.ltb_spec k x)].
  - rewrite IHl. split; [tauto|]. intros [e|[e|e]]; [lia|auto|specialize (B e); lia].
  - rewrite IHr. split; [tauto|]. intros [e|[e|e]]; [lia|specialize (A e); lia|auto].
  - split; [|auto]. intros _. left. lia.
Qed.
