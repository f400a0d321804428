"""chrF of every text against every other, by shared n-gram counts: what minimum-risk decoding expects of a translation.

The number is sacrebleu's own for a sentence (chrF2: six orders of characters without blanks, beta 2, effective order).

Shapes: n texts, M n-grams of one order in all texts, G different ones that several texts have.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

ORDERS, BETA = 6, 2

Numbers = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]


def pairwise_chrf(texts: Sequence[str]) -> Numbers:
    """[h, r] is the chrF, from 0 to 100, of text h with text r as its reference. (n, n)"""
    n = len(texts)
    without_blanks = ["".join(text.split()) for text in texts]
    lengths = np.array([len(text) for text in without_blanks], dtype=np.int64)
    joined = "".join(without_blanks).encode("utf-32-le", "surrogatepass")
    characters = np.unique(np.frombuffer(joined, dtype=np.uint32), return_inverse=True)[1].astype(np.int64)
    text_of = np.repeat(np.arange(n), lengths)
    left = np.repeat(lengths.cumsum(), lengths) - np.arange(len(characters))  # characters from here to the text's end
    precision, recall, orders = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    codes = np.zeros_like(characters)  # of the n-gram of the order before that begins at each place
    for order in range(1, ORDERS + 1):
        starts = np.flatnonzero(left >= order)
        longer = codes[starts] * (len(characters) + 1) + characters[starts + order - 1]
        of_grams = np.unique(longer, return_inverse=True)[1].astype(np.int64)
        codes = np.zeros_like(codes)
        codes[starts] = of_grams
        total = np.maximum(lengths - order + 1, 0).astype(np.float64)  # (n,)
        match = _shared(text_of[starts], of_grams, total)
        both = (total[:, None] > 0) & (total > 0)
        at_least_one = np.maximum(total, 1.0)
        precision += match / at_least_one[:, None]
        recall += match / at_least_one
        orders += both
    precision, recall = (np.divide(x, orders, out=np.zeros_like(x), where=orders > 0) for x in (precision, recall))
    denominator = BETA**2 * precision + recall
    product = (1 + BETA**2) * precision * recall
    return 100 * np.divide(product, denominator, out=np.zeros_like(product), where=denominator > 0)


def _shared(text_of: Ids, grams: Ids, total: Numbers) -> Numbers:
    """How many n-grams each two texts share, as often as both have them: text_of and grams (M,), of each text one after
    the other; total (n,) how many each text has. (n, n)"""
    n = len(total)
    if not len(grams):
        return np.zeros((n, n))
    # The second occurrence of an n-gram in a text is another one than the first: what texts share is then a set.
    size = int(grams.max()) + 1
    order = np.argsort(text_of * size + grams, kind="stable")
    key = (text_of * size + grams)[order]
    place = np.arange(len(key))
    begins = np.r_[True, key[1:] != key[:-1]]
    occurrence = place - np.maximum.accumulate(np.where(begins, place, 0))
    _, column, texts_with = np.unique(occurrence * size + grams[order], return_inverse=True, return_counts=True)
    several = texts_with > 1  # what one text alone has is shared with none but itself
    new_column = np.cumsum(several) - 1
    kept = several[column]
    has = np.zeros((n, int(several.sum())), dtype=np.float32)
    has[text_of[order][kept], new_column[column[kept]]] = 1.0
    shared: Numbers = (has @ has.T).astype(np.float64)
    np.fill_diagonal(shared, total)
    return shared
