"""Moving values between the notebook and the processes of a running session."""
