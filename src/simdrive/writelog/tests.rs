//! A log is read as it was written, whatever is cut off or changed in it.

use proptest::prelude::*;

use super::*;
use crate::simdrive::Error;
use crate::simdrive::model::Operation;

fn head() -> Header {
    Header {
        size_bytes: 4 << 30,
        block_bytes: 512,
        atomic_unit_bytes: 4096,
        write_back: true,
        drive: "sata-2009".to_owned(),
    }
}

/// An entry that owns what it says.
#[derive(Debug, Clone, PartialEq)]
enum Owned {
    Issued(u64, Request, Option<Vec<u8>>),
    Completed(u64, u64),
    Mark(u64, String),
}

impl Owned {
    fn entry(&self) -> Entry<'_> {
        match self {
            Owned::Issued(at_ns, request, data) => {
                Entry::Issued { at_ns: *at_ns, request: *request, data: data.as_deref() }
            }
            Owned::Completed(at_ns, id) => Entry::Completed { at_ns: *at_ns, id: *id },
            Owned::Mark(at_ns, text) => Entry::Mark { at_ns: *at_ns, text },
        }
    }

    fn of(entry: &Entry) -> Owned {
        match entry {
            Entry::Issued { at_ns, request, data } => {
                Owned::Issued(*at_ns, *request, data.map(<[u8]>::to_vec))
            }
            Entry::Completed { at_ns, id } => Owned::Completed(*at_ns, *id),
            Entry::Mark { at_ns, text } => Owned::Mark(*at_ns, (*text).to_owned()),
        }
    }
}

fn written(entries: &[Owned]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &head()).expect("memory");
    for entry in entries {
        writer.write(&entry.entry()).expect("memory");
    }
    writer.finish().expect("memory")
}

/// Everything readable, and how it ended.
fn read(bytes: &[u8]) -> (Vec<Owned>, Result<Ending, Error>) {
    let mut entries = Vec::new();
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (entries, Err(error)),
    };
    loop {
        match reader.next() {
            Ok(Some(entry)) => entries.push(Owned::of(&entry)),
            Ok(None) => return (entries, Ok(reader.ending())),
            Err(error) => return (entries, Err(error)),
        }
    }
}

fn entries() -> impl Strategy<Value = Vec<Owned>> {
    let operations = prop_oneof![
        Just(Operation::Read),
        Just(Operation::Write),
        Just(Operation::Discard),
        Just(Operation::Flush)
    ];
    let issued = (any::<u64>(), operations, any::<u64>(), any::<u64>(), prop::option::of(any::<[u8; 40]>()));
    let issued = issued.prop_map(|(id, operation, offset_bytes, length_bytes, data)| {
        if operation == Operation::Flush {
            return Owned::Issued(0, Request { id, operation, offset_bytes: 0, length_bytes: 0 }, None);
        }
        let data = data.filter(|_| operation == Operation::Write).map(|data| data.to_vec());
        Owned::Issued(0, Request { id, operation, offset_bytes, length_bytes }, data)
    });
    let completed = any::<u64>().prop_map(|id| Owned::Completed(0, id));
    let mark = "\\PC{0,12}".prop_map(|text| Owned::Mark(0, text));
    let one = (prop_oneof![4 => issued, 4 => completed, 1 => mark], 0_u64..1 << 40);
    prop::collection::vec(one, 0..20).prop_map(|drawn| {
        let mut now_ns = 0;
        let timed = drawn.into_iter().map(|(entry, pause_ns)| {
            now_ns += pause_ns;
            match entry {
                Owned::Issued(_, request, data) => Owned::Issued(now_ns, request, data),
                Owned::Completed(_, id) => Owned::Completed(now_ns, id),
                Owned::Mark(_, text) => Owned::Mark(now_ns, text),
            }
        });
        timed.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_log_is_read_as_it_was_written(entries in entries()) {
        let bytes = written(&entries);
        let reader = Reader::new(&bytes[..]).expect("a log");
        prop_assert_eq!(reader.header(), &head());
        let (found, ending) = read(&bytes);
        prop_assert_eq!(found, entries);
        prop_assert_eq!(ending.expect("whole"), Ending::Closed);
    }

    #[test]
    fn a_log_cut_anywhere_is_read_up_to_its_last_whole_entry(entries in entries(), padding in 0_usize..3) {
        let bytes = written(&entries);
        let header_bytes = written(&[]).len() - 7;
        let mut whole = 0;
        for cut in header_bytes..bytes.len() {
            let mut cut_off = bytes[..cut].to_vec();
            cut_off.resize(cut + padding * 600, 0);
            let (found, ending) = read(&cut_off);
            prop_assert!(entries.starts_with(&found));
            prop_assert!(found.len() >= whole, "an entry is lost that was there at an earlier cut");
            whole = found.len();
            // Padding is as good as the zeros that a checksum may end in.
            let torn = matches!(ending, Ok(Ending::Torn { .. })) || cut_off.starts_with(&bytes);
            prop_assert!(torn, "cut at {}: {:?}", cut, ending);
        }
        prop_assert_eq!(whole, entries.len());
    }

    #[test]
    fn a_changed_byte_is_found(entries in entries(), change in 1_u8..=255) {
        let bytes = written(&entries);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            let (found, ending) = read(&changed);
            prop_assert!(entries.starts_with(&found));
            prop_assert!(!matches!(ending, Ok(Ending::Closed)), "byte {} was changed, nobody noticed", at);
        }
    }
}

#[test]
fn a_request_and_its_completion_take_few_bytes() {
    let mut entries = Vec::new();
    for id in 0..1000 {
        let request =
            Request { id, operation: Operation::Write, offset_bytes: id * 8192, length_bytes: 8192 };
        entries.push(Owned::Issued(id * 9_000_000, request, None));
        entries.push(Owned::Completed(id * 9_000_000 + 8_000_000, id));
    }
    let bytes_each = written(&entries).len() / 2000;
    assert!(bytes_each <= 13, "{bytes_each}");
}

#[test]
fn what_is_no_log_is_refused() {
    let message = |bytes: &[u8]| read(bytes).1.expect_err("no log").to_string();
    assert_eq!(message(b""), "this is not a write log");
    assert_eq!(message(b"SQLite format 3"), "this is not a write log");
    assert_eq!(message(b"fsynclog\x02\0\0\0"), "write log has format 2, this program reads format 1");
    assert_eq!(message(&written(&[])[..20]), "write log is damaged at byte 12");
}

#[test]
fn damage_before_the_last_entry_is_an_error_and_says_where() {
    let mark = |text: &str| Owned::Mark(0, text.to_owned());
    let mut bytes = written(&[mark("one"), mark("two"), mark("three")]);
    let at = bytes.windows(3).position(|window| window == b"two").expect("the mark");
    bytes[at] = b'T';
    let (found, ending) = read(&bytes);
    assert_eq!(found, [mark("one")]);
    assert_eq!(ending.expect_err("damaged").to_string(), format!("write log is damaged at byte {}", at - 3));
}

#[test]
fn an_entry_taken_out_whole_is_found() {
    let mark = |text: &str| Owned::Mark(0, text.to_owned());
    let (whole, without) = (written(&[mark("one"), mark("two")]), written(&[mark("one")]));
    let mut bytes = without[..without.len() - 7].to_vec();
    bytes.extend(&whole[whole.len() - 7..]);
    assert_eq!(
        read(&bytes).1.expect_err("an entry is missing").to_string(),
        "write log is damaged at byte 47"
    );
}

#[test]
fn a_write_that_is_too_large_is_refused() {
    let data = vec![0; usize::try_from(MOST_DATA_BYTES).expect("64 bits") + 1];
    let request =
        Request { id: 0, operation: Operation::Write, offset_bytes: 0, length_bytes: data.len() as u64 };
    let mut writer = Writer::new(Vec::new(), &head()).expect("memory");
    let error = writer.write(&Entry::Issued { at_ns: 0, request, data: Some(&data) }).expect_err("too large");
    assert!(error.to_string().starts_with("a write of 16777217 bytes is too large"));
}

#[test]
fn a_reader_that_is_given_a_byte_at_a_time_sees_the_same() {
    struct Drop<'a>(&'a [u8]);
    impl std::io::Read for Drop<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let take = self.0.len().min(buffer.len()).min(1);
            buffer[..take].copy_from_slice(&self.0[..take]);
            self.0 = &self.0[take..];
            Ok(take)
        }
    }
    let bytes = written(&[Owned::Mark(5, "start".to_owned()), Owned::Completed(6, 1)]);
    let mut reader = Reader::new(Drop(&bytes)).expect("a log");
    assert_eq!(reader.next().expect("an entry"), Some(Entry::Mark { at_ns: 5, text: "start" }));
    assert_eq!(reader.next().expect("an entry"), Some(Entry::Completed { at_ns: 6, id: 1 }));
    assert_eq!(reader.next().expect("the end"), None);
    assert_eq!(reader.ending(), Ending::Closed);
}
