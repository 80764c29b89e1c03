"""An SOP a hundred times as large; a store of a million decisions."""
