"""The pages: each makes the values of its template."""
