"""Mathematical answers: is one equal to the gold answer?

The story, in the order in which the files are used:

1. What is normalised: `normalise` brings notation that means the same to one form.
2. What is parsed: `numbers` reads one exact number (with `units` for what stands beside it),
   `structure` reads lists, tuples, intervals, sets, matrices and relations, and `expressions` makes
   a sympy object of one expression.
3. What is compared: `equality` proves two expressions, relations or sets of real numbers equal,
   `large` compares numbers that are too large to be written out, and `answers` goes through two
   answers part by part. `repetition` refuses what the question gives.

`answers.grade_answers` is the way in. It decides what it can in this process, in linear time. The
rest goes to the grading processes, which have imported `warm`: what uses sympy may take any
time.
"""
