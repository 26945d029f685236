"""One attempt at a task: plan, launch, wire, grade."""
