"""The app of `pods inspect`: rollouts of runs, kept or not, read in place while they are written.

sources.py      what can be opened: a run's folder, verl's and slime's dumps, files of rollouts
conversion.py   rollouts of other programs as the columns that `podsrl.rollout_log` writes
dataset.py      an index of the numbers, beside files that keep the texts
search.py       filters, and pages of what they find
app.py          the server, with its token and its refusals
export.py       one page with a sample, for sharing
notebook.py     the app inside a notebook
static/         the front end, which the server and the exported page share
"""
