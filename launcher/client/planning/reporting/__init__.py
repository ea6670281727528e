"""Report on a job that runs or ran: one HTML file that needs no network."""
