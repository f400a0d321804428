"""The embedded corpus: a small grammar of an artificial language that writes sentence pairs with gold morphemes.

The language is nobody's. Its build is that of isiZulu and isiXhosa (noun classes, concord, long verbs, sound changes
where morphemes meet), its stems are invented, and its English side is the plainest English that says the same. It is
there so that the program can be tried and measured in minutes; results on it say nothing about a real language.
"""

from ssmt.demo.corpus import Corpus, ensure_corpus, make_corpus, write_corpus
from ssmt.demo.sentences import Sentence, sample_sentence

__all__ = ["Corpus", "Sentence", "ensure_corpus", "make_corpus", "sample_sentence", "write_corpus"]
