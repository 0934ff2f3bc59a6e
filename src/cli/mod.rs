//! Floor 6: The only wing with clap, anyhow and printing; one file a command.
