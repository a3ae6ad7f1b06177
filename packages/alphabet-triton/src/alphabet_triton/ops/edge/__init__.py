"""From the input to the direct bank's drive: projection, lift, norm and frame in one kernel."""
