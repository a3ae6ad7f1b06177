"""The whole forward pass as one torch operator, and its backward as another."""
