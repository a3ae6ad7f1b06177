"""The mean loss, its gradient by the logits, and the head's backward to the moment sums, in one kernel."""
