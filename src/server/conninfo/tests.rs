use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

/// A home of its own, and these variables.
struct Place {
    home: tempfile::TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Place {
    fn new(variables: &[(&'static str, &str)]) -> Self {
        let variables = variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Self { home: tempfile::tempdir().expect("home"), variables }
    }

    fn resolve(&self, asked: &Asked) -> Result<Target, ConninfoError> {
        let variable = |name: &str| {
            self.variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
        };
        let home = Some(self.home.path().to_path_buf());
        resolve(asked, &Surroundings { variable: &variable, home, user: "me".to_owned() })
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.home.path().join(name);
        fs::write(&path, text).expect("file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("mode");
    }
}

fn tcp(name: &str) -> Address {
    Address::Tcp { name: name.to_owned(), address: None }
}

fn failure(place: &Place, text: &str) -> String {
    place.resolve(&Asked::conninfo(text)).expect_err(text).to_string()
}

#[test]
fn without_a_word_it_is_the_local_socket_the_own_name_and_postgres() {
    let target = Place::new(&[]).resolve(&Asked::default()).expect("target");
    assert!(matches!(&target.hosts[0].address, Address::Socket(directory) if is_default(directory)));
    assert_eq!((target.hosts[0].port, target.user.as_str()), (5432, "me"));
    assert_eq!(target.databases, ["postgres", "template1"]);
    assert_eq!((target.tls.mode, target.session_attrs), (SslMode::Prefer, SessionAttrs::Any));
}

#[test]
fn parameters_win_over_options_those_over_the_service_and_that_over_variables() {
    let place =
        Place::new(&[("PGHOST", "variable"), ("PGUSER", "variable"), ("PGPORT", "4"), ("PGSERVICE", "s")]);
    place.file(".pg_service.conf", "[s]\nuser=service\nport=3\ndbname=service\n");
    let asked = |database: Option<&str>| Asked {
        port: Some("2".to_owned()),
        database: database.map(str::to_owned),
        ..Asked::default()
    };
    let target = place.resolve(&asked(Some("port=1"))).expect("target");
    assert_eq!(
        (&target.hosts[0].address, target.hosts[0].port, target.user.as_str(), target.databases.as_slice()),
        (&tcp("variable"), 1, "service", &["service".to_owned()][..])
    );
    assert_eq!(place.resolve(&asked(None)).expect("target").hosts[0].port, 2);
    assert_eq!(place.resolve(&asked(Some("shop"))).expect("target").databases, ["shop"]);
}

#[test]
fn lists_of_hosts_are_matched_with_their_ports_and_addresses() {
    let place = Place::new(&[]);
    let target = place.resolve(&Asked::conninfo("host=a,/s,@x,::1 port=1,2,,4")).expect("target");
    let found: Vec<(Address, u16)> = target.hosts.into_iter().map(|host| (host.address, host.port)).collect();
    let socket = |path: &str| Address::Socket(PathBuf::from(path));
    assert_eq!(found, [(tcp("a"), 1), (socket("/s"), 2), (socket("@x"), 5432), (tcp("::1"), 4)]);
    let target = place.resolve(&Asked::conninfo("host=a hostaddr=::1 port=6")).expect("target");
    let address = Some("::1".parse().expect("address"));
    assert_eq!(target.hosts[0].address, Address::Tcp { name: "a".to_owned(), address });
    assert_eq!(failure(&place, "host=a,b,c port=1,2"), "could not match 2 port numbers to 3 hosts");
    assert_eq!(failure(&place, "host=a,b hostaddr=::1"), "could not match 1 hostaddr values to 2 hosts");
    assert_eq!(failure(&place, "host=a port=0"), "invalid port value: \"0\"");
    assert_eq!(failure(&place, "hostaddr=localhost"), "invalid hostaddr value: \"localhost\"");
}

#[test]
fn each_host_has_its_own_line_in_the_password_file() {
    let place = Place::new(&[]);
    place.file(".pgpass", "a:1:postgres:me:one\nlocalhost:5432:*:*:local\n\\:\\:1:*:*:*:six\n");
    let passwords = |text: &str| -> Vec<Option<String>> {
        let target = place.resolve(&Asked::conninfo(text)).expect("target");
        target.hosts.into_iter().map(|host| host.password).collect()
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(passwords("host=a,b,/tmp,/x port=1,1,5432,5432"), [some("one"), None, some("local"), None]);
    assert_eq!(passwords("hostaddr=::1"), [some("six")]);
    assert_eq!(passwords("host=a port=1 password=own"), [some("own")]);
    assert_eq!(passwords("host=a port=1 dbname=shop"), [None]);
}

#[test]
fn a_service_is_sought_in_the_own_file_then_in_the_systems() {
    let place = Place::new(&[]);
    let system = tempfile::tempdir().expect("directory");
    fs::write(system.path().join("pg_service.conf"), "[wide]\nport=7\n").expect("file");
    let place = Place { variables: vec![("PGSYSCONFDIR", system.path().display().to_string())], ..place };
    place.file(".pg_service.conf", "[own]\nport=8\n");
    let port = |text| place.resolve(&Asked::conninfo(text)).map(|target| target.hosts[0].port);
    assert_eq!(port("service=own").expect("port"), 8);
    assert_eq!(port("service=wide").expect("port"), 7);
    assert_eq!(failure(&place, "service=none"), "definition of service \"none\" not found");
    let place = Place::new(&[("PGSERVICEFILE", "/nowhere/file")]);
    assert_eq!(failure(&place, "service=own"), "service file \"/nowhere/file\" not found");
}

#[test]
fn what_protects_and_cannot_be_kept_is_refused() {
    let place = Place::new(&[]);
    for text in ["requirepeer=postgres", "require_auth=scram-sha-256", "sslcrldir=/x", "gssencmode=require"] {
        let name = text.split('=').next().expect("a name");
        assert_eq!(failure(&place, text), format!("connection option \"{name}\" is not supported here"));
    }
    assert_eq!(failure(&place, "sslmode=yes"), "invalid sslmode value: \"yes\"");
    assert_eq!(failure(&place, "sslrootcert=system sslmode=require"), "invalid sslmode value: \"require\"");
    assert_eq!(failure(&place, "sslnegotiation=direct"), "invalid sslmode value: \"prefer\"");
}

#[test]
fn variables_for_settings_become_options() {
    let place =
        Place::new(&[("PGTZ", "Europe/Berlin"), ("PGDATESTYLE", "ISO, DMY"), ("PGOPTIONS", "-c geqo=off")]);
    let target = place.resolve(&Asked::default()).expect("target");
    let expected = "-c DateStyle=ISO,\\ DMY -c TimeZone=Europe/Berlin -c geqo=off";
    assert_eq!(target.options.as_deref(), Some(expected));
}
