"""Credentials and personal data in text, told by form, checksum and entropy."""
