"""The checker that enforces annotations under test: an int is a float here, as in PEP 484."""

from beartype import BeartypeConf, beartype

typechecked = beartype(conf=BeartypeConf(is_pep484_tower=True))
