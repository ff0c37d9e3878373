"""Past decisions: pack, report, replay and compare them with another policy."""
