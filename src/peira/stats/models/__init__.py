"""Fitted models: response surfaces, variance components, random effects, Bradley-Terry."""
