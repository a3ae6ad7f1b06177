"""PTX snippets and Triton kernels to execute, and exact arithmetic to compare with."""
