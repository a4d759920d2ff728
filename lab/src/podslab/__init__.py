"""The laboratory of podsrl: models, tasks, graders, training, comparisons and reports."""
