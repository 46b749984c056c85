"""How fast the recorders make episodes durable, beside LeRobot's own writer and a bare encoder."""
