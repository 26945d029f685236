"""What training did to a model: to its weights, its activations and predictions, and its accuracy."""
