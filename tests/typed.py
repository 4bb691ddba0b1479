"""How annotations are checked in tests: as Python reads them, where a whole number is a float too."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
