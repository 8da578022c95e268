"""The search of a history for anomalies. It opens nothing and connects to nothing."""
