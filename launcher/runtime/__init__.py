"""The job world's ground floor: who am I, which role do I play, how do I end."""
