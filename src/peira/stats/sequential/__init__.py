"""Inference that stays valid under repeated interim looks."""
