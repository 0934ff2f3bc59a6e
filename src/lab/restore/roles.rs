//! Roles of a plain dump: it gives its tables to their owners, who must be there.

use crate::lab::servers::Server;
use crate::server::connect::Session;
use crate::server::dump::Contents;
use crate::server::error::ServerError;
use crate::server::restore::RestoreError;
use crate::server::sql::literal;

/// In a cluster made for the run the dump's roles are made too, without rights.
pub(super) fn make_roles(server: &mut Server<'_>, contents: &Contents) -> Result<(), RestoreError> {
    let mut missing = missing_roles(&mut server.session, contents)?;
    if server.is_ours() {
        for role in missing.drain(..) {
            server.session.run(&format!("CREATE ROLE {role}"))?;
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(RestoreError::NoRoles { roles: missing }) }
}

/// Roles of a dump that a server does not have.
pub(super) fn missing_roles(session: &mut Session, contents: &Contents) -> Result<Vec<String>, ServerError> {
    let mut missing = Vec::new();
    for role in &contents.roles {
        let name = match role.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
            Some(quoted) => quoted.replace("\"\"", "\""),
            None => role.to_lowercase(),
        };
        let sql = format!("SELECT count(*) FROM pg_catalog.pg_roles WHERE rolname = {}", literal(&name));
        if session.value(&sql)? == "0" {
            missing.push(role.clone());
        }
    }
    Ok(missing)
}
