"""Tiny models, tokenizers and training runs."""
