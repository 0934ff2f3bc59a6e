//! Floor 3: Connections as psql makes them, scratch clusters, CREATE DATABASE, restores, pgbench.
