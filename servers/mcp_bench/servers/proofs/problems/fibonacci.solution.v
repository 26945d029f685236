From Coq Require Import Arith Lia List Bool.
Import ListNotations.
From Task Require Import Problem.

Lemma step : forall n, fib (S (S n)) = fib (S n) + fib n.
Proof. reflexivity. Qed.
Theorem part1 : Problem.part1.
Proof.
  intro n; induction n; [reflexivity|].
  replace (S n + 2) with (S (S (S n))) by lia. replace (n + 2) with (S (S n)) in IHn by lia.
  rewrite step. cbn [total]. lia.
Qed.
Lemma walk : forall n k, loop n (fib k) (fib (S k)) = fib (n + k).
Proof.
  induction n; intro k; [reflexivity|]. cbn [loop].
  replace (fib k + fib (S k)) with (fib (S (S k))) by (rewrite step; lia).
  rewrite IHn. f_equal. lia.
Qed.
Theorem part2 : Problem.part2.
Proof. intro n. pose proof (walk n 0) as H. simpl in H. now rewrite Nat.add_0_r in H. Qed.
Theorem part3 : Problem.part3.
Proof.
  intro m; induction m; intro n; [simpl; lia|].
  replace (S m + n) with (m + S n) by lia. rewrite IHm, (step n), (step m). nia.
Qed.
