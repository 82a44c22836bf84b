"""One module per topic; each has `rows(settings)`, which measures and yields rows as they become ready."""
