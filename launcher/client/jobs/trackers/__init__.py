"""Trackers: what writes a job's metrics to TensorBoard, MLflow or a function of the user's."""
