"""The paper's own numbers (Meyer and Buys 2023, Findings of ACL), as its tables have them.

They are of other training text (165 thousand to 8.7 million pairs), larger models and other test sets than ours: what
can be compared is who is ahead of whom, and by how much.
"""

from __future__ import annotations

from typing import NamedTuple


class Quality(NamedTuple):
    bleu: float
    chrf: float


class Cuts(NamedTuple):
    precision: float
    recall: float
    f1: float


# Table 2: sentence pairs of training.
PAIRS = {"xh": "8.7 million", "zu": "3.9 million", "fi": "1.6 million"}
PAIRS |= {"ss": "165 thousand", "tn": "5.9 million", "af": "1.6 million"}

# Table 3: FLORES devtest.
_TABLE_3 = {
    "xh": ((14.3, 53.2), (15.0, 53.3), (14.9, 53.3), (15.0, 53.5)),
    "zu": ((13.5, 53.2), (13.7, 53.0), (14.2, 53.7), (14.2, 53.7)),
    "fi": ((15.0, 50.1), (15.0, 49.6), (15.4, 50.0), (14.4, 50.1)),
    "ss": ((0.2, 23.4), (0.4, 23.7), (0.3, 23.5), (0.7, 26.2)),
    "tn": ((10.2, 36.9), (10.1, 35.5), (9.1, 34.6), (9.7, 36.5)),
    "af": ((33.4, 64.2), (33.5, 64.3), (34.6, 65.0), (32.0, 63.6)),
}
SYSTEMS = ("bpe", "ulm", "dpe", "ssmt")
TRANSLATION = {
    (language, system): Quality(*scores)
    for language, row in _TABLE_3.items()
    for system, scores in zip(SYSTEMS, row, strict=True)
}

# Table 4: chrF on the Swati validation set; the rows in the order of the paper, which is that of `systems.ABLATION`.
ABLATION = (23.3, 23.7, 23.1, 26.2, 26.4)

# Tables 5 and 6.
_TABLE_5 = {
    "xh": ((37.16, 25.42, 30.19), (61.22, 34.65, 44.25), (51.52, 44.24, 47.60), (49.55, 72.60, 58.90)),
    "zu": ((51.57, 29.62, 37.62), (63.70, 31.72, 42.35), (59.66, 41.64, 49.05), (52.87, 66.41, 58.87)),
    "ss": ((19.57, 16.17, 17.71), (52.48, 45.26, 48.61), (16.96, 17.00, 16.98), (47.47, 61.89, 53.73)),
}
_TABLE_6 = {
    "xh": ((18.04, 14.23, 15.91), (31.59, 22.51, 26.29), (28.82, 26.16, 27.43), (31.58, 41.50, 35.87)),
    "zu": ((24.51, 17.52, 20.43), (31.47, 20.88, 25.10), (33.01, 26.36, 29.31), (33.81, 39.57, 36.46)),
    "ss": ((9.13, 3.77, 5.33), (32.31, 13.72, 19.26), (7.97, 3.72, 5.08), (27.57, 15.49, 19.83)),
}
MORPHEMES = {
    measure: {
        (language, system): Cuts(*scores)
        for language, row in table.items()
        for system, scores in zip(SYSTEMS, row, strict=True)
    }
    for measure, table in (("boundary", _TABLE_5), ("identification", _TABLE_6))
}

# Table 7: the Zulu validation set, by search and beam.
BEAMS = {
    ("mixture", 1): Quality(11.8, 49.7),
    ("mixture", 3): Quality(11.5, 49.2),
    ("mixture", 5): Quality(11.2, 49.4),
    ("mixture", 7): Quality(11.4, 49.6),
    ("mixture", 10): Quality(11.5, 49.8),
    ("dynamic", 1): Quality(13.6, 52.2),
    ("dynamic", 3): Quality(14.1, 53.6),
    ("dynamic", 5): Quality(14.5, 53.8),
    ("dynamic", 7): Quality(14.3, 53.8),
    ("dynamic", 10): Quality(14.4, 53.8),
}

# Figure 3: mean chrF of the four systems by divergence, which is all that the text says in numbers.
SUBSETS = {0.2: 54.1, 0.3: 51.5}
