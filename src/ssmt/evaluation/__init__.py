"""The paper's three measurements: translation, morphology and compositional generalisation.

Everything here works on plain text and numbers, so any system's output can be measured, not only this program's.
"""
