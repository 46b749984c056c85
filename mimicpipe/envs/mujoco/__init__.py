"""MuJoCo on the CPU: many copies of one scene, stepped in a batch by MuJoCo's own thread pool."""
