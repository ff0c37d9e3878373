"""The scanner: all patterns of a rule set in one linear pass over folded text.

`fold` makes one form of many spellings, `decode` reads what was encoded, `pattern` is the
grammar of rules, and `Database` finds every pattern, with hyperscan where it is installed
and with re2 elsewhere.
"""
