"""Changes cache entries and saved programs at random, judges how cuesta reads them, and reduces the changes."""
