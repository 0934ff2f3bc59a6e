//! A server of version 15 that listens everywhere it can: TCP, a socket in a directory, an abstract one, with passwords
//! and certificates.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::common;

const BIN: &str = "/usr/lib/postgresql/15/bin";
const PASSWORD: &str = "se cret:\\'x";

/// Who may come how.
const HBA: &str = "\
local all trusting trust
local all postgres trust
hostssl all tlsonly 127.0.0.1/32 scram-sha-256
hostnossl all plainonly 127.0.0.1/32 scram-sha-256
hostssl all cert 127.0.0.1/32 cert
host all scram 127.0.0.1/32 scram-sha-256
host all scram ::1/128 scram-sha-256
";

const ROLES: &str = "SET password_encryption = 'scram-sha-256'; CREATE ROLE trusting SUPERUSER LOGIN; \
     CREATE ROLE scram LOGIN; CREATE ROLE tlsonly LOGIN; CREATE ROLE plainonly LOGIN; CREATE ROLE cert LOGIN;";

/// Authorities, a server's certificate for db.test, one for named.test as the documentation makes it, a client's.
const CERTIFICATES: &str = r"
set -e
authority() { openssl req -new -x509 -days 30 -nodes -newkey rsa:2048 -subj /CN=$2 -out $1.crt -keyout $1.key; }
authority ca authority; authority other other; authority self named.test
signed() {
  openssl req -new -nodes -newkey rsa:2048 -subj /CN=$2 -out $1.csr -keyout $1.key
  openssl x509 -req -in $1.csr -days 30 -CA ca.crt -CAkey ca.key -CAcreateserial -extfile $3 -out $1.crt
}
echo subjectAltName=DNS:db.test,DNS:second.test >names; echo basicConstraints=CA:FALSE >plain
signed server db.test names; signed client cert plain
cp client.key open.key; chmod 600 *.key; chmod 644 open.key
printf 'database=index.txt\ncrlnumber=number\ndefault_md=sha256\n' >body; { echo '[ca]'; echo 'default_ca=x'; echo '[x]'; cat body; } >ca.conf
: >index.txt; echo 01 >number
openssl ca -config ca.conf -keyfile ca.key -cert ca.crt -revoke server.crt
openssl ca -config ca.conf -keyfile ca.key -cert ca.crt -gencrl -crldays 30 -out ca.crl
";

pub struct Listening {
    directory: TempDir,
    port: u16,
}

fn as_postgres(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"])
        .arg(format!("{BIN}/{program}"));
    command.current_dir("/").env_clear().env("LC_ALL", "C").env("PATH", "/usr/bin:/bin");
    command
}

fn done(command: &mut Command) {
    let output = command.output().expect("a program");
    assert!(output.status.success(), "{command:?}: {}", common::text(&output));
}

impl Listening {
    pub fn start() -> Self {
        let directory = common::scratch("listening");
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let server = Self { directory, port: free.local_addr().expect("address").port() };
        drop(free);
        let path = |name: &str| server.path(name);
        fs::set_permissions(path(""), fs::Permissions::from_mode(0o755)).expect("mode");
        for name in ["data", "socket", "home", "tls"] {
            fs::create_dir(path(name)).expect("directory");
        }
        common::run("chown", &["postgres:postgres".into(), path("data"), path("socket")]);
        let mut openssl = Command::new("bash");
        done(openssl.args(["-c", CERTIFICATES]).current_dir(path("tls")));
        done(as_postgres("initdb").arg("-D").arg(path("data")).args([
            "-U",
            "postgres",
            "-A",
            "trust",
            "--no-sync",
            "--no-locale",
        ]));
        fs::write(path("data/pg_hba.conf"), HBA).expect("pg_hba.conf");
        let settings = server.fill(
            "listen_addresses = '127.0.0.1,::1'\nport = {port}\nfsync = off\nssl = on\nssl_ca_file = 'ca.crt'\n\
             unix_socket_directories = '{socket},@{socket}'\n",
        );
        fs::write(path("data/postgresql.conf"), settings).expect("postgresql.conf");
        fs::copy(path("tls/ca.crt"), path("data/ca.crt")).expect("ca.crt");
        server.put_certificate("server");
        server.control(&["start", "-w", "-s", "-l", "log"]);
        server.sql("postgres", ROLES);
        for role in ["scram", "tlsonly", "plainonly"] {
            server.sql(
                "postgres",
                &format!(
                    "ALTER ROLE {role} PASSWORD E'{}'",
                    PASSWORD.replace('\\', "\\\\").replace('\'', "\\'")
                ),
            );
        }
        server
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// `{socket}`, `{port}`, `{tls}` and, quoted for where it stands, `{password}`.
    pub fn fill(&self, text: &str) -> String {
        let is_line = text.contains(":{password}");
        let escaped = PASSWORD.replace('\\', "\\\\");
        let password =
            if is_line { escaped.replace(':', "\\:") } else { format!("'{}'", escaped.replace('\'', "\\'")) };
        text.replace("{socket}", &self.path("socket").to_string_lossy())
            .replace("{port}", &self.port.to_string())
            .replace("{tls}", &self.path("tls").to_string_lossy())
            .replace("{password}", &password)
    }

    pub fn home_file(&self, name: &str, text: &str, mode: u32) {
        let path = self.home().join(name);
        fs::write(&path, self.fill(text)).expect("file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("mode");
    }

    pub fn sql(&self, database: &str, sql: &str) {
        let mut psql = as_postgres("psql");
        psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"]).arg(self.path("socket"));
        done(psql.args(["-p", &self.port.to_string(), "-d", database, "-c", sql]));
    }

    fn put_certificate(&self, name: &str) {
        for kind in ["crt", "key"] {
            let target = self.path(&format!("data/server.{kind}"));
            fs::copy(self.path(&format!("tls/{name}.{kind}")), &target).expect("certificate");
            common::run("chown", &["postgres:postgres".into(), target]);
        }
    }

    pub fn use_certificate(&self, name: &str) {
        self.put_certificate(name);
        self.control(&["restart", "-w", "-s", "-m", "fast", "-l", "log"]);
    }

    fn control(&self, arguments: &[&str]) {
        let mut pg_ctl = as_postgres("pg_ctl");
        pg_ctl.arg("-D").arg(self.path("data")).args(arguments);
        // A log by a relative name would lie in `/`.
        let log = self.path("data/log");
        if let Some(position) = arguments.iter().position(|argument| *argument == "log") {
            pg_ctl = as_postgres("pg_ctl");
            pg_ctl.arg("-D").arg(self.path("data")).args(&arguments[..position]).arg(log);
        }
        done(&mut pg_ctl);
    }

    pub fn stop(self) {
        self.control(&["stop", "-m", "immediate", "-s"]);
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // A test that failed leaves its server running.
        if self.path("data/postmaster.pid").exists() {
            let stopped = as_postgres("pg_ctl")
                .arg("-D")
                .arg(self.path("data"))
                .args(["stop", "-m", "immediate", "-s"])
                .status();
            assert!(stopped.is_ok(), "a server is left in {}", self.directory.path().display());
        }
    }
}
