"""Translations between the names of Hugging Face's states and those of smp's distributed layers.

There are no distributed layers here, so a state has Hugging Face's names in any case.
"""

from __future__ import annotations

from launcher.parallel.smp.nn.huggingface import bert, gpt2, gptj, gptneo, gptneox, roberta

__all__ = ["bert", "gpt2", "gptj", "gptneo", "gptneox", "roberta"]
