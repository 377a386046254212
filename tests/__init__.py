"""All that shows nbdist to work; nothing here is shipped."""
