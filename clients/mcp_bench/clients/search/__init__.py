"""Agents that search: a model proposes whole versions of a target, and a rule says which ones it sees."""
