"""Buzzega et al., 2020: Dark Experience for General Continual Learning."""
