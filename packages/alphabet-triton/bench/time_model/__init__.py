"""A static model of time on an RTX 4090: estimates from machine code and executed trip counts; nothing runs on a GPU.

flow       loops of a program, from its branches
sass       machine code as nvdisasm lists it: instructions, registers, loops
ada        what an Ada multiprocessor does per cycle, and what was assumed
inputs     tensors of a recorded launch, filled with what it may meet
trips      how often each loop of a launch runs, by executing some of its programs as PTX
warp       cycles of one warp alone, in order, waiting for what it needs
cost       a launch's estimate: waves of programs over 128 multiprocessors
nodes      graph nodes of a call, counted on a recorded one
designs    all launches of the audit's designs
table      the estimates as a table, before and after
"""
