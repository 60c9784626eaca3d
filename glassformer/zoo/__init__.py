"""Room 10, the zoo: small models that the project trained itself, so that all works offline."""
