"""A CPU for verl 0.9.1, for tests only: verl knows GPUs, NPUs, vLLM and SGLang.

Loaded in every process by VERL_USE_EXTERNAL_MODULES=cpu_bed, before verl asks for its platform.
It brings a CPU platform, a rollout that samples with Hugging Face `generate`, a critic without
flash attention, and a log of how many rows each model is run on. Nothing of the trainer under test
is touched.
"""

from cpu_bed import critic, platform, rollout, rows  # noqa: F401  (each installs itself)
