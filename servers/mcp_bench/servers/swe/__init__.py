"""swe: repair a repository so that its hidden tests pass. Tasks in SWE-bench's format, over local clones."""
