"""Train on recordings: data loading, fine-tuning, serving, and the loop that repeats them."""
