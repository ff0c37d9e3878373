"""Run the same scenarios through every adapter: refusals must be the same in all of them."""
