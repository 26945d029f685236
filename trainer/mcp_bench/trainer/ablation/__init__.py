"""Whether better graded recordings train a better model: the same budget on cohorts that differ in grades."""
