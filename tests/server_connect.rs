//! Connections against psql itself: the same words, variables and files lead to the same session or to the same refusal.

mod common;
#[path = "common/listening.rs"]
mod listening;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use fsynclab::server::connect;
use fsynclab::server::conninfo::{Asked, Surroundings, resolve};
use listening::Listening;

const WHO: &str = "SELECT current_user, current_database(), coalesce(host(inet_server_addr()), 'socket'), \
     (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), current_setting('TimeZone'), \
     current_setting('application_name')";

/// What a connection came to: the row of [`WHO`], or the messages.
type Outcome = Result<String, String>;

struct Case<'a> {
    server: &'a Listening,
    variables: Vec<(String, String)>,
}

impl<'a> Case<'a> {
    fn new(server: &'a Listening, variables: &[(&str, &str)]) -> Self {
        let filled = |text: &str| server.fill(text);
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), filled(value))).collect();
        Self { server, variables }
    }

    fn psql(&self, conninfo: &str) -> Outcome {
        let mut psql = std::process::Command::new("/usr/lib/postgresql/15/bin/psql");
        psql.env_clear().env("HOME", self.server.home()).env("LC_ALL", "C");
        psql.envs(self.variables.iter().map(|(name, value)| (name, value)));
        psql.args(["-X", "-A", "-t", "-w", "-F", "|", "-c", WHO, "-d", conninfo]);
        let output = psql.output().expect("psql");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    fn ours(&self, conninfo: &str) -> Outcome {
        let variable = |name: &str| {
            self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        };
        let around =
            Surroundings { variable: &variable, home: Some(self.server.home()), user: "root".to_owned() };
        let target = resolve(&Asked::conninfo(conninfo), &around).map_err(|error| error.to_string())?;
        let mut session = connect(&target).map_err(|error| error.to_string())?;
        let row = session.rows(WHO).map_err(|error| error.to_string())?.remove(0);
        Ok(row.join("|"))
    }

    /// Both get in and see the same.
    fn same(&self, conninfo: &str) -> String {
        let conninfo = self.server.fill(conninfo);
        let expected = self.psql(&format!("{conninfo} application_name=same"));
        let found = self.ours(&format!("{conninfo} application_name=same"));
        assert_eq!(found, expected, "{conninfo}");
        found.expect("psql gets in")
    }

    /// Neither gets in, and ours says this.
    fn refused(&self, conninfo: &str, message: &str) {
        let conninfo = self.server.fill(conninfo);
        let expected = self.psql(&conninfo);
        assert!(expected.is_err(), "psql gets in: {conninfo}: {expected:?}");
        let found = self.ours(&conninfo).expect_err(&conninfo);
        assert!(found.contains(message), "{conninfo}\nours: {found}\npsql: {expected:?}");
    }

    /// Neither gets in, and both say this.
    fn same_refusal(&self, conninfo: &str, message: &str) {
        self.refused(conninfo, message);
        let expected = self.psql(&self.server.fill(conninfo)).expect_err("refused");
        assert!(expected.contains(message), "{conninfo}\npsql: {expected}");
    }
}

#[test]
fn sockets_hosts_services_and_password_files_lead_where_psql_goes() {
    if !common::root_or_skip("sockets_hosts_services_and_password_files_lead_where_psql_goes") {
        return;
    }
    let server = Listening::start();
    let case = |variables: &[(&str, &str)]| Case::new(&server, variables);
    let plain = case(&[]);
    assert!(plain.same("host={socket} port={port} user=trusting dbname=postgres").contains("|socket|"));
    assert!(plain.same("host=@{socket} port={port} user=trusting dbname=postgres").contains("|socket|"));
    assert!(
        plain
            .same("host=127.0.0.1 port={port} user=scram password={password} dbname=postgres")
            .contains("|127.0.0.1|")
    );
    assert!(
        plain.same("host=::1 port={port} user=scram password={password} dbname=postgres").contains("|::1|")
    );
    plain.same(
        "host=nowhere.invalid hostaddr=127.0.0.1 port={port} user=scram password={password} dbname=postgres",
    );
    // The first host is dead, the second lives.
    plain.same("host=/nowhere,127.0.0.1 port=1,{port} user=scram password={password} dbname=postgres");
    case(&[("PGHOST", "{socket}"), ("PGPORT", "{port}"), ("PGUSER", "trusting"), ("PGTZ", "Asia/Tokyo")])
        .same("dbname=postgres");
    case(&[("PGOPTIONS", "-c timezone=Asia/Tokyo"), ("PGHOST", "{socket}"), ("PGPORT", "{port}")])
        .same("user=trusting dbname=postgres");
    server.home_file(".pg_service.conf", "[here]\nhost={socket}\nport={port}\nuser=trusting\n", 0o644);
    plain.same("service=here dbname=postgres");
    plain.same_refusal("service=gone", "definition of service \"gone\" not found");
    server.home_file(".pgpass", "127.0.0.1:{port}:*:scram:{password}\n", 0o600);
    plain.same("host=127.0.0.1 port={port} user=scram dbname=postgres");
    server.home_file(".pgpass", "127.0.0.1:{port}:*:scram:{password}\n", 0o640);
    assert!(plain.psql(&server.fill("host=127.0.0.1 port={port} user=scram dbname=postgres")).is_err());
    plain
        .ours(&server.fill("host=127.0.0.1 port={port} user=scram dbname=postgres"))
        .expect_err("no password");
    let tcp = "host=127.0.0.1 port={port} dbname=postgres";
    plain.same_refusal(
        &format!("{tcp} user=scram password=wrong"),
        "password authentication failed for user \"scram\"",
    );
    plain.same_refusal(
        "host=127.0.0.1 port={port} dbname=gone user=scram password={password}",
        "database \"gone\" does not exist",
    );
    plain.same_refusal("host=/nowhere port=1 user=x dbname=x", "No such file or directory");
    plain.same_refusal("host=127.0.0.1 port=1 user=x dbname=x", "Connection refused");
    let standby = format!("{tcp} user=scram password={{password}} target_session_attrs");
    plain.same(&format!("{standby}=read-write"));
    plain.same(&format!("{standby}=prefer-standby"));
    plain.same_refusal(&format!("{standby}=standby"), "server is not in hot standby mode");
    plain.same_refusal(&format!("{standby}=read-only"), "session is not read-only");
    server.stop();
}

#[test]
fn without_a_database_it_is_postgres_and_where_that_is_gone_template1() {
    if !common::root_or_skip("without_a_database_it_is_postgres_and_where_that_is_gone_template1") {
        return;
    }
    let server = Listening::start();
    let case = Case::new(&server, &[]);
    let database = |case: &Case<'_>| {
        let conninfo = case.server.fill("host={socket} port={port} user=trusting");
        case.ours(&conninfo).expect("session").split('|').nth(1).map(str::to_owned)
    };
    assert_eq!(database(&case).as_deref(), Some("postgres"));
    server.sql("template1", "DROP DATABASE postgres");
    assert_eq!(database(&case).as_deref(), Some("template1"));
    server.stop();
}

#[test]
fn encryption_goes_as_far_as_psqls() {
    if !common::root_or_skip("encryption_goes_as_far_as_psqls") {
        return;
    }
    let server = Listening::start();
    let case = Case::new(&server, &[]);
    let to =
        |rest: &str| format!("hostaddr=127.0.0.1 port={{port}} password={{password}} dbname=postgres {rest}");
    for (words, encrypted) in [
        ("host=db.test user=scram sslmode=disable", false),
        ("host=db.test user=scram sslmode=allow", false),
        ("host=db.test user=scram sslmode=prefer", true),
        ("host=db.test user=scram sslmode=require", true),
        ("host=db.test user=tlsonly sslmode=allow", true),
        ("host=db.test user=plainonly sslmode=prefer", false),
        ("host=db.test user=scram sslmode=require channel_binding=require", true),
        ("host=db.test user=scram sslmode=verify-ca sslrootcert={tls}/ca.crt", true),
        ("host=other.test user=scram sslmode=verify-ca sslrootcert={tls}/ca.crt", true),
        ("host=db.test user=scram sslmode=verify-full sslrootcert={tls}/ca.crt", true),
        (
            "host=db.test user=scram sslmode=verify-full sslrootcert={tls}/ca.crt ssl_max_protocol_version=TLSv1.2",
            true,
        ),
        // A wrong authority in a mode that need not encrypt: psql goes on without, and so do we.
        ("host=db.test user=scram sslmode=prefer sslrootcert={tls}/other.crt", false),
        ("host=db.test user=cert sslmode=require sslcert={tls}/client.crt sslkey={tls}/client.key", true),
    ] {
        let row = case.same(&to(words));
        assert_eq!(row.split('|').nth(3), Some(if encrypted { "t" } else { "f" }), "{words}: {row}");
    }
    for (words, message) in [
        ("host=db.test user=tlsonly sslmode=disable", "no pg_hba.conf entry"),
        ("host=db.test user=plainonly sslmode=require", "no pg_hba.conf entry"),
        ("host=other.test user=scram sslmode=verify-full sslrootcert={tls}/ca.crt", "not valid for name"),
        ("host=db.test user=scram sslmode=require sslrootcert={tls}/other.crt", "UnknownIssuer"),
        ("host=db.test user=scram sslmode=verify-full sslrootcert={tls}/none.crt", "root certificate file"),
        ("host=db.test user=scram sslmode=verify-ca sslrootcert={tls}/ca.crt sslcrl={tls}/ca.crl", "Revoked"),
        (
            "host=db.test user=cert sslmode=require sslcert={tls}/none.crt sslkey={tls}/none.key",
            "certificate",
        ),
        (
            "host=db.test user=cert sslmode=require sslcert={tls}/client.crt sslkey={tls}/open.key",
            "has group or world access",
        ),
    ] {
        case.refused(&to(words), message);
    }
    server.use_certificate("self");
    // The certificate of PostgreSQL's own documentation: self-signed, an authority, a common name and nothing else.
    case.same(&to("host=named.test user=scram sslmode=verify-full sslrootcert={tls}/self.crt"));
    case.same(&to("host=other.test user=scram sslmode=verify-ca sslrootcert={tls}/self.crt"));
    case.refused(
        &to("host=other.test user=scram sslmode=verify-full sslrootcert={tls}/self.crt"),
        "not valid for name",
    );
    server.stop();
}

#[test]
fn a_key_that_others_can_read_is_refused_before_anything_is_sent() {
    let directory = common::scratch("key");
    for name in ["client.crt", "client.key"] {
        fs::write(directory.path().join(name), "x").expect("file");
    }
    fs::set_permissions(directory.path().join("client.key"), fs::Permissions::from_mode(0o644))
        .expect("mode");
    let around = Surroundings { variable: &|_| None, home: None, user: "me".to_owned() };
    let words = format!(
        "host=127.0.0.1 port=1 sslmode=require sslcert={0}/client.crt sslkey={0}/client.key",
        directory.path().display()
    );
    let error = connect(&resolve(&Asked::conninfo(&words), &around).expect("target")).expect_err("refused");
    assert!(
        error.to_string().contains("could not load certificate file")
            || error.to_string().contains("has group or world access"),
        "{error}"
    );
}
