"""One refusal in the forms that other systems read."""
