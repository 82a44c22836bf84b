"""One module a topic; each offers `rows(settings)`, which measures and yields rows as they are ready."""
