"""Asking a running server the held-out questions and judging what it is worth: see ../score."""
