"""Families that only `practice` lists."""
