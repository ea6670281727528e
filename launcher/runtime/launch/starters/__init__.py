"""The ways to start the ranks of a train host: one class each, by the job document's `launch`."""
