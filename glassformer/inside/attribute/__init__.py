"""Attribution of predictions to tokens and components."""
