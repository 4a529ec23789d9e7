"""Vision and audio towers, counted to the digit from their section of a config.json."""
