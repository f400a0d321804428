"""Raw text to numbers and back: lines, alphabet, lexicon, source subwords, corpus."""
