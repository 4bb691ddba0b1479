"""The entries of ``left @ rightᵀ``, gone over without ever being kept: exact answers from fast and inexact passes.

``scan`` says what a kernel is asked and hands back; ``tiles`` and ``fused`` are kernels; ``exact`` has the last word; ``survey`` puts them
together; ``staircase`` finds the largest of all entries without looking at most of them.
"""
