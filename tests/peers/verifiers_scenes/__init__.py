"""Rollouts under verifiers that are cut short in every way; imported where verifiers is installed, for scripts."""
