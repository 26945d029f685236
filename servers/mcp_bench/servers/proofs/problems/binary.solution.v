From Coq Require Import Arith Lia List Bool.
Import ListNotations.
From Task Require Import Problem.

Theorem part1 : Problem.part1.
Proof. intro l; induction l as [|[] r IH]; simpl; lia. Qed.
Theorem part2 : Problem.part2.
Proof.
  intro n; induction n as [|n [l H]]; [now exists []|]. exists (next l). now rewrite part1, H.
Qed.
Theorem part3 : Problem.part3.
Proof.
  intro l; induction l as [|a r IH]; intros m c.
  - destruct c; simpl; rewrite ?part1; lia.
  - destruct m as [|b s]; [destruct c; cbn [add]; rewrite ?part1; cbn [value]; lia|].
    cbn [add value]. rewrite IH. destruct c, a, b; cbn; lia.
Qed.
