"""What one request may ask for: nobody, by mistake or by malice, keeps the machine from everybody else."""

BODY_BYTES = 64 * 1024
"""Of what is sent along; questions are asked in the address."""
BODY_SECONDS = 10.0
"""In which all of it must be there."""
ADDRESS_BYTES = 512 * 1024
"""Of a request's line and headers: a long text stands in the address, in which a letter may take twelve bytes."""
HEAD_SECONDS = 15.0
"""In which a request's line and headers must be there."""
DRAIN_SECONDS = 15.0
"""In which whoever is being answered must take some of it."""
CONNECTIONS = 400
"""That are open at one time; of more, the one that has been silent longest goes."""
TEXT = 40_000
"""Letters of a text."""
TOKENS = 4_096
"""Tokens of a text; more than the models that people look into can read."""
ROWS = 1_000
"""Rows of a table in one answer; the next ones are asked for by their offset."""
PARTS = 400
"""Parts in one list."""
CELLS = 4_194_304
"""Numbers in one binary answer: 16 MB of float32, a pattern over 2,048 tokens."""
PICTURE = 24_000_000
"""Bytes of drawn figures that stay at hand."""
SECONDS = 120.0
"""After which a question is given up."""
WAITING = 300
"""Questions that wait their turn; more are refused at once, which is kinder than to let them all wait."""
WAITING_OF_TAB = 100
"""Of which one tab may have so many: it does not take the others' places."""
RUNS_BYTES = 768 * 2**20
"""Of runs that stay at hand for the next question about the same text."""
MODELS_BYTES = 6 * 2**30
"""Of models that stay loaded; the one that was asked longest ago goes first."""
KNOWN_BYTES = 256 * 2**20
"""Of what has been found out about trainings: numbers at their snapshots, and the pairs of their texts."""
SURVEYS_BYTES = 64 * 2**20
"""Of what all heads look at, in numbers and small pictures."""
FOLLOWERS = 64
"""Connections that are told of progress at one time."""
