"""Models behind HTTP: a queue and a worker for each, LibreTranslate's, DeepL's and our own interface, and a page."""
