"""The tables that a model's weights contain, written out: bigrams, what each head looks for and says, skip-trigrams.

``subject`` says which matrices they are; ``lift`` finds the strongest of all vocab³ skip-trigrams; ``tasks`` are the pieces of work,
``build`` puts them together, ``engines`` run them; ``evidence`` and ``bugs`` hold them against a text; ``manifest``, ``verify``, ``search`` and ``export``
are about the folder on disk.
"""
