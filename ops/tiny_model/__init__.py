"""Everything that makes configs/tiny: training text, tokenizer, trainer, export and score."""
