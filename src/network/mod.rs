//! Connects and disconnects a network namespace given as a value; never knows Docker.
