"""What each program means: one module a family of rules, tables first."""
