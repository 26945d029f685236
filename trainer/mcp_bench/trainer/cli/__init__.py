"""The trainer's commands. For fast start-up, their modules import only click and the standard library."""
