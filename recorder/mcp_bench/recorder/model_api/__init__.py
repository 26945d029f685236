"""Requests to model APIs, and the answers, as recorded by a proxy."""
