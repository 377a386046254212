"""TPU pods: where their workers are, told by `gcloud`, by Google's metadata server or by Kubernetes."""
