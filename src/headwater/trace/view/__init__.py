"""What a run looks like from outside: the stream at every stage, who moves information, what a lookup finds."""
