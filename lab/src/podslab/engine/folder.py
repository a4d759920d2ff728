"""The names of files and folders that the planners have in a comparison's folder."""

#: The plan of a comparison of arms, from a YAML file.
ARMS_PLAN = "comparison.yaml"
#: The plan of a comparison of methods on a script.
SCRIPT_PLAN = "plan.json"
#: The learning rates that tuning chose.
CHOSEN_RATES = "rates.json"
#: The folder of the runs that learning rates are chosen by.
TUNING = "tuning"
