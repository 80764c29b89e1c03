"""What the daemon tells about itself: metrics and logs."""
