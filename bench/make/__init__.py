"""The tool maker measured: what its traces and its repairs are worth, over all of the dock."""
