"""Hyper-parameter search at equal budgets, and its ledger."""
