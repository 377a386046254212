"""Sessions on test hosts: through ssh, schedulers and pods."""
