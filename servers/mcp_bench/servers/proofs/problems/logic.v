(* Propositions without the excluded middle. *)
From Coq Require Import Arith Lia List Bool.
Import ListNotations.

Definition part1 : Prop := forall P Q : Prop, ~ (P \/ Q) <-> ~ P /\ ~ Q.
Definition part2 : Prop := forall P : Prop, ~ ~ (P \/ ~ P).
Definition part3 : Prop :=
  (forall P : Prop, ~ ~ P -> P) <-> (forall P Q : Prop, ((P -> Q) -> P) -> P).
