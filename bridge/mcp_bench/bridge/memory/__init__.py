"""Edits of a harness that are made from recordings: tips, skills, examples, and what may be recalled."""
