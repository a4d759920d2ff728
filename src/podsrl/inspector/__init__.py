"""The app of `pods inspect`: rollouts of runs, kept or not, read in place while they are written.

The way of the data is sources -> index -> answers -> views:

sources/        what can be opened: one small file for each format
fields.py       which fields of a file mean what; keeping.py, what PODS would have kept
grouping.py     which rollouts are of one prompt, where the file may not say it
conversion.py   rollouts of other programs as the columns that `podsrl.rollout_log` writes
index.py        the numbers of all rollouts, beside files that keep the texts
notes.py        labels and notes, in a file beside the run; checks.py, the user's own check
answers.py      what index and files answer; search.py, filters and pages of what they find

app.py          the views in a browser: the server, with its token and its refusals
text.py         the same for a terminal and for a program; table.py, as a data frame
export.py       one page with a sample, for sharing
notebook.py     the app inside a notebook
static/         the front end, which the server and the exported page share

The columns of a rollout, and by which of them one can filter, stand in one list, of
`podsrl.rollout_log.columns`.
"""
