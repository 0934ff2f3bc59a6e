//! What can go wrong with simulated drives.

/// An error of the simulated drives.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No built-in model has this name.
    #[error("no simulated drive is called \"{name}\"")]
    UnknownModel {
        /// As given.
        name: String,
    },
    /// A model's text is not TOML, or has a key that is unknown, missing or of the wrong type.
    #[error("could not read model \"{model}\", line {line}{}: {}", in_quotes(key.as_deref()), source.message())]
    ModelText {
        /// The model's name or path.
        model: String,
        /// Counted from 1.
        line: usize,
        /// The key on that line, if there is one.
        key: Option<String>,
        /// What the reader of TOML says.
        source: Box<toml::de::Error>,
    },
    /// A number of a model makes no sense.
    #[error("model \"{model}\", line {line}: \"{key}\" is {value}, must be {least} to {most}")]
    ModelRange {
        /// The model's name or path.
        model: String,
        /// Counted from 1.
        line: usize,
        /// With its table, as in `rotating.rpm`.
        key: String,
        /// As read.
        value: f64,
        /// Least value allowed.
        least: f64,
        /// Greatest value allowed.
        most: f64,
    },
    /// A number of a model must be one of two.
    #[error("model \"{model}\", line {line}: \"{key}\" is {value}, must be 512 or 4096")]
    ModelBlock {
        /// The model's name or path.
        model: String,
        /// Counted from 1.
        line: usize,
        /// The key.
        key: &'static str,
        /// As read.
        value: u32,
    },
    /// A model needs one mechanism.
    #[error("model \"{model}\" must have one of the tables [rotating], [flash] and [network], has {count}")]
    ModelMechanism {
        /// The model's name or path.
        model: String,
        /// How many it has.
        count: usize,
    },
    /// Keys of a burst bucket come together.
    #[error("model \"{model}\": network.burst_iops, network.burst_requests and network.iops come together")]
    ModelBurst {
        /// The model's name or path.
        model: String,
    },
    /// A drive was given as something that is not `MODEL[,KEY=VALUE]…`.
    #[error("could not understand \"{part}\" in simulated drive \"{spec}\": expected {expected}")]
    Spec {
        /// The whole text.
        spec: String,
        /// The part that is wrong.
        part: String,
        /// What may stand there.
        expected: &'static str,
    },
    /// The write cache of a drive without one cannot be switched on.
    #[error("simulated drive \"{model}\" has no write cache to switch on")]
    NoWriteCache {
        /// The model's name or path.
        model: String,
    },
    /// The bytes do not begin as a write log does.
    #[error("this is not a write log")]
    NotALog,
    /// A write log of a later program.
    #[error("write log has format {found}, this program reads format {known}")]
    LogFormat {
        /// In the file.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// A checksum or a field in the middle of a write log is wrong.
    #[error("write log is damaged at byte {at_byte}")]
    LogDamaged {
        /// Where the damaged entry begins.
        at_byte: u64,
    },
    /// An entry's data are larger than the format takes.
    #[error(
        "a write of {length_bytes} bytes is too large for a write log, at most {most_bytes} are possible"
    )]
    LogEntry {
        /// As given.
        length_bytes: u64,
        /// The limit.
        most_bytes: u64,
    },
    /// The write log could not be read.
    #[error("could not read write log: {source}")]
    LogRead {
        /// What the system says.
        source: std::io::Error,
    },
    /// The write log could not be written.
    #[error("could not write write log: {source}")]
    LogWrite {
        /// What the system says.
        source: std::io::Error,
    },
}

fn in_quotes(key: Option<&str>) -> String {
    key.map_or(String::new(), |key| format!(", \"{key}\""))
}
