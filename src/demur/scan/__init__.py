"""The scanner: all patterns of a rule set in one linear pass over folded text.

`decode` reads encoded text, `grammar` and `pattern` define the patterns of rules, and
`PatternDatabase` finds them, with hyperscan where it is installed and with re2 elsewhere.
"""
