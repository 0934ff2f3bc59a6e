use proptest::prelude::*;

use super::*;

fn scan(text: &str) -> Result<Contents, Danger> {
    in_pieces(text.as_bytes(), &[])
}

/// Cut at these places.
fn in_pieces(bytes: &[u8], cuts: &[usize]) -> Result<Contents, Danger> {
    let mut scanner = Scanner::default();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.sort_unstable();
    let mut from = 0;
    for cut in cuts.into_iter().chain([bytes.len()]) {
        scanner.scan(&bytes[from..cut])?;
        from = cut;
    }
    scanner.finish()
}

fn refused(text: &str) -> String {
    scan(text).expect_err(text).to_string()
}

/// As pg_dump writes it, with much that looks worse than it is.
const GOOD: &str = r#"--
-- \connect original; DROP DATABASE original;
\restrict aB3
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
CREATE FUNCTION public.f(a integer, b integer) RETURNS void LANGUAGE plpgsql AS $_$
begin \connect x; -- DROP DATABASE x;
$a$ $__$ end $_$;
ALTER FUNCTION public.f(a integer, b integer) OWNER TO bob;
CREATE TABLE public."my ""table""" (t text DEFAULT 'it''s \ '::text, u text DEFAULT E'\' \\');
CREATE USER MAPPING FOR bob SERVER s; /* DROP /* nested */ DATABASE x */
SELECT a$b$, 1.5, $1 - 2 FROM x; COMMENT ON VIEW v IS '; DROP DATABASE x;';
GRANT SELECT ON TABLE public.t TO "A b";
REVOKE ALL ON SCHEMA public FROM PUBLIC;
COPY public."my ""table""" (t, u) FROM stdin;
\\.	\connect x
'DROP DATABASE x; $a$ "
\N	/*
\.
COPY public.empty (a) FROM stdin;
\.
ALTER TABLE ONLY public.t ADD CONSTRAINT t_pkey PRIMARY KEY (id);
\unrestrict aB3
"#;

#[test]
fn a_dump_of_pg_dump_is_read_whole() {
    let contents = scan(GOOD).expect("good");
    let tables = [(r#"public."my ""table""""#.to_owned(), 3), ("public.empty".to_owned(), 0)];
    assert_eq!(contents.tables, tables);
    assert_eq!(contents.roles.iter().map(String::as_str).collect::<Vec<_>>(), ["\"A b\"", "bob"]);
    assert_eq!((contents.bytes, contents.rows()), (GOOD.len() as u64, 3));
}

#[test]
fn a_dump_of_an_old_pg_dump_names_its_schema_first() {
    let contents =
        scan("SET search_path = shop, pg_catalog;\nCOPY t (a) FROM stdin;\n1\r\n\\.\r\n").expect("old");
    assert_eq!(contents.tables, [("shop.t".to_owned(), 1)]);
}

#[test]
fn rows_of_one_table_in_several_parts_are_added() {
    let part = "COPY p (a) FROM stdin;\n1\n2\n\\.\nCOPY q (a) FROM stdin;\n1\n\\.\n";
    let contents = scan(&part.repeat(2)).expect("parts");
    assert_eq!(contents.tables, [("p".to_owned(), 4), ("q".to_owned(), 2)]);
}

#[test]
fn what_reaches_beyond_the_database_is_refused_with_its_line() {
    for (text, expected) in [
        ("\n\\connect original\n", "line 2: \"\\c\" is a command to psql: a dump is loaded without any"),
        ("SELECT 1 \\g | sh\n", "line 1: \"\\\" is a command to psql: a dump is loaded without any"),
        ("\\restrict a;b\n", "line 1: \"\\restrict a\" is a command to psql: a dump is loaded without any"),
        (
            "SELECT 1;\n\ndrop /* x */\ndatabase\nshop;",
            "line 3: DROP DATABASE reaches beyond the database that is loaded",
        ),
        (
            "ALTER DATABASE \"x\" SET a = 1;",
            "line 1: ALTER DATABASE reaches beyond the database that is loaded",
        ),
        ("CREATE ROLE x;", "line 1: CREATE ROLE reaches beyond the database that is loaded"),
        ("DROP USER \"x\";", "line 1: DROP USER reaches beyond the database that is loaded"),
        ("ALTER SYSTEM SET fsync = off", "line 1: ALTER SYSTEM reaches beyond the database that is loaded"),
        (
            "COPY t TO PROGRAM 'sh';",
            "line 1: COPY other than FROM stdin reaches beyond the database that is loaded",
        ),
        (
            "COPY t (a) FROM PROGRAM 'sh' WHERE a IS DISTINCT FROM stdin;\nDROP DATABASE x;\n\\.\n",
            "line 1: COPY other than FROM stdin reaches beyond the database that is loaded",
        ),
        ("-- x\rDROP DATABASE shop;\n", "line 1: DROP DATABASE reaches beyond the database that is loaded"),
        (
            "REVOKE CONNECT ON DATABASE shop FROM PUBLIC;",
            "line 1: REVOKE ON DATABASE reaches beyond the database that is loaded",
        ),
        ("COMMENT ON ROLE joe IS 'x';", "line 1: COMMENT ON ROLE reaches beyond the database that is loaded"),
        (
            "REASSIGN OWNED BY joe TO ann;",
            "line 1: REASSIGN OWNED reaches beyond the database that is loaded",
        ),
        ("drop owned BY joe;", "line 1: DROP OWNED reaches beyond the database that is loaded"),
        ("GRANT ann TO joe;", "line 1: membership in a role reaches beyond the database that is loaded"),
        (
            "COPY (SELECT 1 FROM stdin) TO '/x'",
            "line 1: COPY other than FROM stdin reaches beyond the database that is loaded",
        ),
    ] {
        assert_eq!(refused(text), expected, "{text}");
    }
}

#[test]
fn what_psql_might_read_otherwise_is_refused() {
    for (text, why) in [
        ("SET standard_conforming_strings = off;\n", "standard_conforming_strings is not on"),
        ("SET \"standard_conforming_strings\" = off;\n", "standard_conforming_strings is not on"),
        ("SET U&\"standard\\005fconforming_strings\" = off;\n", "standard_conforming_strings is not on"),
        (
            "SELECT pg_catalog.set_config('standard_conforming_strings', 'off', false);",
            "standard_conforming_strings is not on",
        ),
        ("SELECT \"set_config\" ('a' || 'b', '', false);", "standard_conforming_strings is not on"),
        ("\u{feff}DROP DATABASE x;", "a zero byte, a byte-order mark or a control character"),
        ("SELECT 1;\0 $$\n; DROP DATABASE x;", "a zero byte, a byte-order mark or a control character"),
        ("COPY t FROM stdin;\nx\0y\n\\.\n", "a zero byte, a byte-order mark or a control character"),
        ("DROP\u{b}DATABASE x;", "a zero byte, a byte-order mark or a control character"),
        ("SELECT 1abc$x$; DROP DATABASE x; --$x$;", "a dollar sign that begins no quote"),
        ("SET client_encoding = 'SJIS';\n", "in this client_encoding a letter may hold a backslash"),
        ("SET NAMES E'x';\n", "in this client_encoding a letter may hold a backslash"),
        ("SELECT $e'\\'';", "a dollar sign that begins no quote"),
        ("COPY t FROM stdin; DROP", "something stands between COPY FROM stdin and its data"),
        ("SELECT E'x' '\\';", "something that may continue an escape string"),
        ("COPY t FROM stdin;\n1\n", "the dump ends within data, a quote or a comment: it was cut off"),
        ("SELECT 'x", "the dump ends within data, a quote or a comment: it was cut off"),
    ] {
        assert!(
            refused(text).ends_with(&format!("cannot be read safely: {why}")),
            "{text}: {}",
            refused(text)
        );
    }
}

/// Something that may stand between two statements, and hides what is in it.
fn hiding() -> impl Strategy<Value = String> {
    let inner = "[a-zA-Z0-9 ;/*\\\\\n-]{0,30}";
    prop_oneof![
        inner.prop_map(|text| format!("SELECT '{text}';")),
        inner.prop_map(|text| format!("SELECT \"{text}\";")),
        inner.prop_map(|text| format!("SELECT E'{}\\'';", text.replace('\\', "\\\\"))),
        inner.prop_map(|text| format!("SELECT $tag${text}$tag$;")),
        inner.prop_map(|text| format!("--{}\n", text.replace('\n', ""))),
        inner.prop_map(|text| format!("/*{}*/", text.replace(['*', '/'], ""))),
        inner.prop_map(|text| format!("\nCOPY t FROM stdin;\n{}x\n\\.\n", text.replace("\\\n", ""))),
    ]
}

proptest! {
    #[test]
    fn where_a_dump_is_cut_into_pieces_makes_no_difference(
        parts in proptest::collection::vec(hiding(), 0..8),
        cuts in proptest::collection::vec(any::<usize>(), 0..20),
    ) {
        let text = GOOD.to_owned() + &parts.concat();
        prop_assert_eq!(in_pieces(text.as_bytes(), &cuts), scan(&text));
        prop_assert!(scan(&text).is_ok(), "{:?}: {}", scan(&text), text);
    }

    #[test]
    fn nothing_hides_a_statement_that_follows(
        parts in proptest::collection::vec(hiding(), 0..8),
        cuts in proptest::collection::vec(any::<usize>(), 0..20),
        bad in prop_oneof![Just("DROP DATABASE x;"), Just("\\connect x\n"), Just("COPY t TO '/x';")],
    ) {
        let text = parts.concat() + "\n" + bad;
        prop_assert!(in_pieces(text.as_bytes(), &cuts).is_err(), "{}", text);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), cuts in proptest::collection::vec(any::<usize>(), 0..9)) {
        prop_assert_eq!(in_pieces(&bytes, &cuts), in_pieces(&bytes, &[]));
    }
}
