"""Hidden tests, run over the files that an agent left, with tools that it could not touch."""
