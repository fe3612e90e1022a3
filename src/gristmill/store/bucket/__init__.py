"""Object stores by the S3 interface."""
