"""The shipped gender axes and the substitution of their words."""

from countergen_edit.core.conf_path import read_config
from countergen_edit.data.axis import Axis
from countergen_edit.data.text.substitution import Substitution

CONFIG = read_config("axis", "gender")
GENDER = Axis.from_config(CONFIG)
SWAP = Substitution.from_config(GENDER, CONFIG["substitution"])
_CONFIG_ES = read_config("axis", "gender_es")
SPANISH = Substitution.from_config(Axis.from_config(_CONFIG_ES), _CONFIG_ES["substitution"])
