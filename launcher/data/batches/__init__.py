"""Batches and their bytes: collated, disassembled, framed for the network and rebuilt."""
