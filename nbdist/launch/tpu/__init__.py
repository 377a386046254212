"""TPU pods: their workers, as `gcloud`, Google's metadata server or Kubernetes names them."""
