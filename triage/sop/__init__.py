"""The written procedure: its file, its checks, and the sites it runs at."""
