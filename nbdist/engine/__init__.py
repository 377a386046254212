"""Everything that runs on the engines; imports nothing outside the standard library by itself."""
