"""Settings of the operator: files of defaults, and the commands over them."""
