From Coq Require Import Arith Lia List Bool.
Import ListNotations.
From Task Require Import Problem.

Lemma gauss : forall n, 2 * sum (fun i => i) n = n * (n + 1).
Proof. induction n; cbn [sum]; nia. Qed.
Theorem part1 : Problem.part1.
Proof. exact gauss. Qed.
Theorem part2 : Problem.part2.
Proof. intro n; induction n; cbn [sum]; nia. Qed.
Theorem part3 : Problem.part3.
Proof. intro n; induction n; cbn [sum]; [reflexivity|]. pose proof (gauss n). rewrite IHn. nia. Qed.
