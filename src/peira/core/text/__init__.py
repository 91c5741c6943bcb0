"""Functions on text that several packages share: parsing answers and numbers, printing tables.

The parsers take time linear in the length of the text.
"""
