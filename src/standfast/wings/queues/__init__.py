"""Queues: their rules in layers, ages and depth."""
