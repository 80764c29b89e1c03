"""Takes deliveries, has them decided, and sees that what was decided is stored and sent."""
