//! template0 of a real cluster.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::{run, scratch};
use crate::trees::Source;

/// template0 of a cluster of PostgreSQL 15 as initdb leaves it, outside of that cluster: a cluster's own directory is
/// never touched by a test.
pub fn base_4() -> Source {
    let directory = scratch("base4");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("mode");
    let data = directory.path().join("data");
    fs::create_dir(&data).expect("a directory");
    run("chown", &[OsStr::new("65534:65534"), data.as_os_str()]);
    let identity = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let initdb = ["/usr/lib/postgresql/15/bin/initdb", "-N", "-A", "trust", "-U", "postgres"];
    let locale = ["-E", "UTF8", "--locale=C.UTF-8", "-D"];
    let mut arguments: Vec<&OsStr> =
        identity.into_iter().chain(initdb).chain(locale).map(OsStr::new).collect();
    arguments.push(data.as_os_str());
    run("setpriv", &arguments);
    let base = directory.path().join("base-4");
    run("cp", &[OsStr::new("-r"), data.join("base/4").as_os_str(), base.as_os_str()]);
    fs::remove_dir_all(&data).expect("the cluster");
    Source::new(directory, base)
}
