"""TPU pods: where their workers are, given by `gcloud`, by Google's metadata server or by Kubernetes."""
