"""Ablation: train with the same budget on cohorts that differ only in their grades."""
