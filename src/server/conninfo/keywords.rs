//! Every connection parameter that libpq 18 knows, with its variable. What is not in this table is refused as libpq
//! refuses it. Source: the documentation of libpq, "Parameter Key Words" and "Environment Variables".

/// What becomes of a parameter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It does what it does in libpq.
    Used,
    /// It changes nothing that this program does with a connection.
    Harmless,
    /// It protects something, and this program could not: a value other than the listed ones is an error.
    OnlyAs(&'static [&'static str]),
}

/// One connection parameter.
#[derive(Clone, Copy, Debug)]
pub struct Keyword {
    /// As in a connection string.
    pub name: &'static str,
    /// The variable that gives its value where nothing else does.
    pub variable: Option<&'static str>,
    /// What becomes of it.
    pub support: Support,
}

const fn used(name: &'static str, variable: &'static str) -> Keyword {
    Keyword { name, variable: Some(variable), support: Support::Used }
}

const fn plain(name: &'static str) -> Keyword {
    Keyword { name, variable: None, support: Support::Used }
}

const fn harmless(name: &'static str, variable: Option<&'static str>) -> Keyword {
    Keyword { name, variable, support: Support::Harmless }
}

const fn only(
    name: &'static str,
    variable: Option<&'static str>,
    values: &'static [&'static str],
) -> Keyword {
    Keyword { name, variable, support: Support::OnlyAs(values) }
}

/// The table.
pub const KEYWORDS: &[Keyword] = &[
    used("service", "PGSERVICE"),
    used("servicefile", "PGSERVICEFILE"),
    used("user", "PGUSER"),
    used("password", "PGPASSWORD"),
    used("passfile", "PGPASSFILE"),
    used("dbname", "PGDATABASE"),
    used("host", "PGHOST"),
    used("hostaddr", "PGHOSTADDR"),
    used("port", "PGPORT"),
    used("options", "PGOPTIONS"),
    used("application_name", "PGAPPNAME"),
    plain("fallback_application_name"),
    used("connect_timeout", "PGCONNECT_TIMEOUT"),
    used("target_session_attrs", "PGTARGETSESSIONATTRS"),
    used("channel_binding", "PGCHANNELBINDING"),
    used("sslmode", "PGSSLMODE"),
    used("sslnegotiation", "PGSSLNEGOTIATION"),
    used("sslcert", "PGSSLCERT"),
    used("sslkey", "PGSSLKEY"),
    used("sslcertmode", "PGSSLCERTMODE"),
    used("sslrootcert", "PGSSLROOTCERT"),
    used("sslcrl", "PGSSLCRL"),
    used("sslsni", "PGSSLSNI"),
    used("ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION"),
    used("ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION"),
    plain("keepalives"),
    plain("keepalives_idle"),
    plain("keepalives_interval"),
    plain("keepalives_count"),
    plain("tcp_user_timeout"),
    harmless("client_encoding", Some("PGCLIENTENCODING")),
    harmless("sslcompression", Some("PGSSLCOMPRESSION")),
    harmless("sslkeylogfile", None),
    harmless("gssencmode", Some("PGGSSENCMODE")),
    harmless("krbsrvname", Some("PGKRBSRVNAME")),
    harmless("gsslib", Some("PGGSSLIB")),
    harmless("gssdelegation", Some("PGGSSDELEGATION")),
    harmless("load_balance_hosts", Some("PGLOADBALANCEHOSTS")),
    harmless("min_protocol_version", Some("PGMINPROTOCOLVERSION")),
    harmless("max_protocol_version", Some("PGMAXPROTOCOLVERSION")),
    only("sslpassword", None, &[""]),
    only("sslcrldir", Some("PGSSLCRLDIR"), &[""]),
    only("requiressl", Some("PGREQUIRESSL"), &["", "0"]),
    only("requirepeer", Some("PGREQUIREPEER"), &[""]),
    only("require_auth", Some("PGREQUIREAUTH"), &[""]),
    only("replication", None, &["", "false", "off", "no", "0"]),
    only("scram_client_key", None, &[""]),
    only("scram_server_key", None, &[""]),
];

/// Variables that libpq turns into settings of the session. Source: the same chapter.
pub const SESSION_VARIABLES: &[(&str, &str)] =
    &[("PGDATESTYLE", "DateStyle"), ("PGTZ", "TimeZone"), ("PGGEQO", "geqo")];

/// The row of a parameter.
pub fn keyword(name: &str) -> Option<&'static Keyword> {
    KEYWORDS.iter().find(|keyword| keyword.name == name)
}
