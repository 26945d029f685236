From Coq Require Import Arith Lia List Bool.
Import ListNotations.
From Task Require Import Problem.

Theorem part1 : Problem.part1.
Proof.
  intro n; split.
  - induction 1 as [|n _ [k H]]; [now exists 0|]. exists (S k). lia.
  - intros [k H]; subst. induction k; simpl; [constructor|].
    replace (k + S (k + 0)) with (S (2 * k)) by lia. now constructor.
Qed.
Lemma halves : forall n, (exists k, n = 2 * k) \/ (exists k, n = 2 * k + 1).
Proof.
  induction n as [|n [[k H]|[k H]]]; [left; now exists 0| |]; [right; exists k; lia|left; exists (S k); lia].
Qed.
Theorem part2 : Problem.part2.
Proof.
  intros n H. apply part1 in H. destruct H as [k H]. apply part1.
  destruct (halves n) as [?|[m G]]; [assumption|]. exfalso. subst. nia.
Qed.
Theorem part3 : Problem.part3.
Proof.
  intro p; induction p as [p IH] using lt_wf_ind. intros q H.
  assert (E : even p) by (apply part2, part1; eauto). apply part1 in E. destruct E as [r E]. subst.
  assert (G : q * q = 2 * (r * r)) by nia.
  assert (F : even q) by (apply part2, part1; eauto). apply part1 in F. destruct F as [s F]. subst.
  destruct (Nat.eq_dec r 0) as [?|N]; [subst; nia|].
  assert (s = 0); [|lia]. apply (IH r); nia.
Qed.
