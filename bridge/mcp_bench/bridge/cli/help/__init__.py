"""Help as text, as a page and for shells."""
