"""Historical alerts through the real worker, engine and store, scored."""
