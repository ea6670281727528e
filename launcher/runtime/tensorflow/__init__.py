"""TensorFlow's own distribution: TF_CONFIG, and the servers of parameter server training."""
