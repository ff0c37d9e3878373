"""Policies of Lumyn, the nearest peer: read, translated, and written as policies of demur."""
