"""From the direct bank's states to the cascaded bank's moments: synthesis, lift, norm, frame and a scan."""
