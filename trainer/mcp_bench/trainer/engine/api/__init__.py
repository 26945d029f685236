"""The three model APIs that agents speak: requests, checked, and answers, whole or streamed."""
