"""Copies bytes into the recording on their way from one side to the other."""
