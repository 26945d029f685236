From Coq Require Import Arith Lia List Bool.
Import ListNotations.
From Task Require Import Problem.

Lemma expand_onto : forall x l, expand (onto x l) = x :: expand l.
Proof. intros x [|[n y] r]; simpl; [reflexivity|]. destruct (Nat.eqb_spec x y); subst; reflexivity. Qed.
Theorem part1 : Problem.part1.
Proof. intro l; induction l; simpl; [reflexivity|]. now rewrite expand_onto, IHl. Qed.
Lemma tight_onto : forall x l, tight l -> tight (onto x l).
Proof.
  intros x [|[n y] r]; simpl; [auto|]. intros [H G]. destruct (Nat.eqb_spec x y); simpl; auto.
Qed.
Theorem part2 : Problem.part2.
Proof. intro l; induction l; simpl; [exact I|]. now apply tight_onto. Qed.
Lemma pack_repeat : forall n x l, match l with [] => True | (_, y) :: _ => x <> y end ->
  forall m, pack m = l -> pack (repeat x (S n) ++ m) = (n, x) :: l.
Proof.
  induction n; intros x l H m E; simpl.
  - rewrite E. destruct l as [|[k y] r]; simpl; [reflexivity|]. destruct (Nat.eqb_spec x y); [contradiction|reflexivity].
  - specialize (IHn x l H m E). simpl in IHn. rewrite IHn. simpl. now rewrite Nat.eqb_refl.
Qed.
Theorem part3 : Problem.part3.
Proof.
  intro l; induction l as [|[n x] r IH]; [reflexivity|]. intros [H G].
  cbn [expand]. apply pack_repeat; auto.
Qed.
