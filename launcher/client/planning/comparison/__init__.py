"""Comparison of jobs that ran: time, price and idle machines side by side."""
