"""An agent loop over any chat model with tools: OpenAI-compatible endpoints and the Anthropic API."""
