"""Which prompts, n and m teach most per second: models of signal and cost, and the choice by both.

Pure: numpy and scipy only, no torch, no trainer. docs/theory.md derives the model.
"""
