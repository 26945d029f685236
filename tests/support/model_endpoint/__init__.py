"""A scripted model endpoint that speaks four model APIs."""
