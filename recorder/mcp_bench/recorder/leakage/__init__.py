"""Leakage: does a data set hold what a benchmark is tested on?"""
