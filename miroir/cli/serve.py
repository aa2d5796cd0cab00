"""`miroir serve`."""
HELP = "serve an environment"
