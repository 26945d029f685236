"""Supervised fine-tuning on recordings: TRL's SFTTrainer with additional checks."""
