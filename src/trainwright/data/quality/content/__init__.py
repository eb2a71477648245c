"""Quality of texts, documents and images."""
