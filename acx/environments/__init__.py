"""One vector-environment contract over Gymnasium, its spaces and the running normalization."""
