"""Training of the tiny DeepSeek-V4.1 model: network, trainer, evaluation and export (see README.md)."""
