"""Changes injected into the dock's world, and how soon and how falsely they are named."""
