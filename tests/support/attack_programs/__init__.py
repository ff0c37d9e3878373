"""Generate programs that reach a payload, prove it by running a harmless form, and judge the other.

A program is drawn from rows of templates by a seed. It exists in two forms that differ in the
payload alone: the harmless form names a marker program and runs in a sandbox; the destructive form
is never run, and is only a text for the guard.
"""
