"""Where decisions are delivered."""
