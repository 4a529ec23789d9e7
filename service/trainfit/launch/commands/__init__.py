"""What wraps the program that trains: shell scripts, schedulers, containers and launchers."""
