"""A contract double of AutomationBench: see README.md beside this folder."""
