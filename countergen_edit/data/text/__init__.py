"""Words and grammar: who is spoken of in a text, and the text as another group would have it."""
