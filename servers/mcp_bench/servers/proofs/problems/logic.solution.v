From Coq Require Import Arith Lia List Bool.
Import ListNotations.
From Task Require Import Problem.

Theorem part1 : Problem.part1.
Proof. unfold Problem.part1; tauto. Qed.
Theorem part2 : Problem.part2.
Proof. unfold Problem.part2; tauto. Qed.
Theorem part3 : Problem.part3.
Proof.
  split.
  - intros dne P Q peirce. apply dne. intro no. apply no, peirce. intro p. now destruct (no p).
  - intros peirce P nn. apply (peirce P False). intro no. now destruct (nn no).
Qed.
