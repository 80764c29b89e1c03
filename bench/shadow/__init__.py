"""What versions in shadow say of alerts, and what they cost them."""
