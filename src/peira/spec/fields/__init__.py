"""The fields of a study: how they are declared, read, checked and overridden, and their JSON schema."""
