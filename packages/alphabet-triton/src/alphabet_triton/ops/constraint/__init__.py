"""The frames' constraint after an optimizer step: bases move to their frames, tangents back to zero."""
