"""Text handling that scanning, detection, responses and guards share."""
