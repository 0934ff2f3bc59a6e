//! The models: the built-in ones, and their text form, which a file may have too.

use serde::{Deserialize, Serialize};
use toml::de::{DeTable, DeValue};

use super::Error;
use super::model::{Flash, Mechanism, Model, Network, Rotating, WriteCache};

/// Every built-in model: its name and its text, in the order they are listed.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("ide-2003", include_str!("models/ide-2003.toml")),
    ("sata-2009", include_str!("models/sata-2009.toml")),
    ("sas-10k", include_str!("models/sas-10k.toml")),
    ("sas-15k", include_str!("models/sas-15k.toml")),
    ("laptop-5400", include_str!("models/laptop-5400.toml")),
    ("ssd-sata-2014", include_str!("models/ssd-sata-2014.toml")),
    ("nvme-consumer", include_str!("models/nvme-consumer.toml")),
    ("nvme-plp", include_str!("models/nvme-plp.toml")),
    ("raid-bbu", include_str!("models/raid-bbu.toml")),
    ("cloud-3000", include_str!("models/cloud-3000.toml")),
    ("cloud-16000", include_str!("models/cloud-16000.toml")),
    ("liar", include_str!("models/liar.toml")),
];

/// A model as its text has it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    summary: String,
    block_bytes: u32,
    atomic_unit_bytes: u32,
    queue_depth: u32,
    command_overhead_us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rotating: Option<Rotating>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flash: Option<Flash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<Network>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_cache: Option<WriteCache>,
}

/// Is this the path of a model's file, not the name of a built-in model?
#[must_use]
pub fn is_path(model: &str) -> bool {
    model.contains('/')
        || std::path::Path::new(model).extension().is_some_and(|extension| extension == "toml")
}

/// The built-in model of that name; `zero` too, which is not listed.
pub fn built_in(name: &str) -> Result<Model, Error> {
    if name == "zero" {
        return Ok(Model::zero());
    }
    let found = BUILT_IN.iter().find(|(listed, _)| *listed == name);
    let (_, text) = found.ok_or_else(|| Error::UnknownModel { name: name.to_owned() })?;
    parse(name, text)
}

/// A model from its text; `name` is what it is called in messages and labels.
pub fn parse(name: &str, text: &str) -> Result<Model, Error> {
    let read: Text = toml::from_str(text).map_err(|source| text_error(name, text, source))?;
    check_ranges(name, text, &read)?;
    for (key, value) in [("block_bytes", read.block_bytes), ("atomic_unit_bytes", read.atomic_unit_bytes)] {
        if value != 512 && value != 4096 {
            return Err(Error::ModelBlock {
                model: name.to_owned(),
                line: line_of(text, None, key),
                key,
                value,
            });
        }
    }
    let Text {
        summary, block_bytes, atomic_unit_bytes, queue_depth, command_overhead_us, write_cache, ..
    } = read;
    let mechanisms = [
        read.rotating.map(Mechanism::Rotating),
        read.flash.map(Mechanism::Flash),
        read.network.map(Mechanism::Network),
    ];
    let mut mechanisms: Vec<_> = mechanisms.into_iter().flatten().collect();
    let (Some(mechanism), true) = (mechanisms.pop(), mechanisms.is_empty()) else {
        let count = [read.rotating.is_some(), read.flash.is_some(), read.network.is_some()];
        let count = count.into_iter().filter(|has| *has).count();
        return Err(Error::ModelMechanism { model: name.to_owned(), count });
    };
    Ok(Model {
        name: name.to_owned(),
        summary,
        block_bytes,
        atomic_unit_bytes,
        queue_depth,
        command_overhead_us,
        mechanism,
        write_cache,
    })
}

/// The text of a model, as [`parse`] reads it.
///
/// # Panics
/// Never: numbers, texts and one level of tables are always TOML.
#[must_use]
pub fn to_toml(model: &Model) -> String {
    let mut text = Text {
        summary: model.summary.clone(),
        block_bytes: model.block_bytes,
        atomic_unit_bytes: model.atomic_unit_bytes,
        queue_depth: model.queue_depth,
        command_overhead_us: model.command_overhead_us,
        rotating: None,
        flash: None,
        network: None,
        write_cache: model.write_cache,
    };
    match model.mechanism {
        Mechanism::Rotating(numbers) => text.rotating = Some(numbers),
        Mechanism::Flash(numbers) => text.flash = Some(numbers),
        Mechanism::Network(numbers) => text.network = Some(numbers),
    }
    toml::to_string(&text).expect("one level of tables is always TOML")
}

/// A number with the table and key it stands at, and the least and greatest that make sense.
type Ranged = (Option<&'static str>, &'static str, f64, f64, f64);

fn check_ranges(name: &str, text: &str, read: &Text) -> Result<(), Error> {
    let mut ranged: Vec<Ranged> = vec![
        (None, "queue_depth", f64::from(read.queue_depth), 1.0, 65_536.0),
        (None, "command_overhead_us", read.command_overhead_us, 0.0, 1e6),
    ];
    if let Some(rotating) = &read.rotating {
        let table = Some("rotating");
        ranged.extend([
            (table, "rpm", f64::from(rotating.rpm), 60.0, 100_000.0),
            (table, "seek_track_to_track_ms", rotating.seek_track_to_track_ms, 0.0, 1000.0),
            (table, "seek_average_ms", rotating.seek_average_ms, rotating.seek_track_to_track_ms, 1000.0),
            (table, "stroke_part", rotating.stroke_part, 0.001, 1.0),
            (table, "transfer_mb_per_s", rotating.transfer_mb_per_s, 0.1, 10_000.0),
        ]);
    }
    if let Some(flash) = &read.flash {
        let table = Some("flash");
        ranged.extend([
            (table, "channels", f64::from(flash.channels), 1.0, 4096.0),
            (table, "read_us", flash.read_us, 0.0, 1e6),
            (table, "program_us", flash.program_us, 0.0, 1e6),
            (table, "commit_us", flash.commit_us, 0.0, 1e6),
            (table, "read_mb_per_s", flash.read_mb_per_s, 0.1, 1e6),
            (table, "write_mb_per_s", flash.write_mb_per_s, 0.1, 1e6),
        ]);
    }
    if let Some(network) = &read.network {
        ranged.extend(network_ranges(name, network)?);
    }
    if let Some(cache) = &read.write_cache {
        let table = Some("write_cache");
        ranged.extend([
            (table, "size_kib", cache.size_kib as f64, 1.0, 1e9),
            (table, "transfer_mb_per_s", cache.transfer_mb_per_s, 0.1, 1e6),
            (table, "destage_after_ms", cache.destage_after_ms, 0.0, 1e6),
        ]);
    }
    for (table, key, value, least, most) in ranged {
        if !(least..=most).contains(&value) {
            let (model, line) = (name.to_owned(), line_of(text, table, key));
            let key = table.map_or(key.to_owned(), |table| format!("{table}.{key}"));
            return Err(Error::ModelRange { model, line, key, value, least, most });
        }
    }
    Ok(())
}

fn network_ranges(name: &str, network: &Network) -> Result<Vec<Ranged>, Error> {
    let burst = [network.burst_iops, network.burst_requests];
    if burst.iter().any(Option::is_some) && [network.iops].iter().chain(&burst).any(Option::is_none) {
        return Err(Error::ModelBurst { model: name.to_owned() });
    }
    let optional = [
        ("iops", network.iops, 0.1),
        ("io_unit_kib", network.io_unit_kib.map(f64::from), 1.0),
        ("burst_iops", network.burst_iops, network.iops.unwrap_or(0.1)),
        ("burst_requests", network.burst_requests, 1.0),
        ("transfer_mb_per_s", network.transfer_mb_per_s, 0.1),
    ];
    let mut ranged: Vec<Ranged> = vec![(Some("network"), "latency_us", network.latency_us, 0.0, 1e7)];
    ranged.extend(
        optional
            .into_iter()
            .filter_map(|(key, value, least)| value.map(|value| (Some("network"), key, value, least, 1e9))),
    );
    Ok(ranged)
}

fn text_error(name: &str, text: &str, source: toml::de::Error) -> Error {
    let at = source.span().map_or(0, |span| span.start);
    let line = line_at(text, at);
    let key = text
        .lines()
        .nth(line - 1)
        .and_then(|line| line.split_once('='))
        .map(|(key, _)| key.trim().to_owned());
    Error::ModelText { model: name.to_owned(), line, key, source: Box::new(source) }
}

/// The line of a key, from 1; 1 if the text has no such key.
fn line_of(text: &str, table: Option<&str>, key: &str) -> usize {
    let at = DeTable::parse(text).ok().and_then(|root| {
        let inner = match table {
            Some(table) => root.get_ref().get(table)?.get_ref(),
            None => &DeValue::Table(root.get_ref().clone()),
        };
        inner.as_table()?.get(key).map(|value| value.span().start)
    });
    at.map_or(1, |at| line_at(text, at))
}

fn line_at(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse("x.toml", text).expect_err("the text is wrong").to_string()
    }

    fn sata() -> String {
        BUILT_IN[1].1.to_owned()
    }

    #[test]
    fn every_built_in_model_is_read_and_gives_every_number_its_source() {
        for (name, text) in BUILT_IN {
            let model = built_in(name).expect("a listed model");
            assert_eq!(&model.name, name);
            for line in text.lines().filter(|line| !line.starts_with("summary") && line.contains(" = ")) {
                assert!(line.contains("  # "), "{name}: no source in {line}");
            }
        }
    }

    #[test]
    fn a_model_written_as_text_is_read_as_the_same() {
        for (name, _) in BUILT_IN {
            let model = built_in(name).expect("a listed model");
            assert_eq!(parse(name, &to_toml(&model)).expect("our own text"), model);
        }
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line() {
        let text = error(&sata().replace("rpm = 7200", "rmp = 7200"));
        assert!(
            text.starts_with("could not read model \"x.toml\", line 11, \"rmp\": unknown field `rmp`"),
            "{text}"
        );
    }

    #[test]
    fn a_wrong_type_is_refused_with_its_line_and_key() {
        let text = error(&sata().replace("rpm = 7200", "rpm = \"fast\""));
        assert!(
            text.starts_with("could not read model \"x.toml\", line 11, \"rpm\": invalid type"),
            "{text}"
        );
    }

    #[test]
    fn a_number_out_of_range_is_refused_with_its_line_and_key() {
        let text = error(&sata().replace("rpm = 7200", "rpm = 0"));
        assert_eq!(text, "model \"x.toml\", line 11: \"rotating.rpm\" is 0, must be 60 to 100000");
        let text = error(&sata().replace("queue_depth = 1", "queue_depth = 0"));
        assert_eq!(text, "model \"x.toml\", line 5: \"queue_depth\" is 0, must be 1 to 65536");
        let text = error(&sata().replace("seek_average_ms = 8.5", "seek_average_ms = nan"));
        assert!(text.contains("line 13: \"rotating.seek_average_ms\" is NaN"), "{text}");
        let text = error(&sata().replace("block_bytes = 512", "block_bytes = 1024"));
        assert_eq!(text, "model \"x.toml\", line 3: \"block_bytes\" is 1024, must be 512 or 4096");
    }

    #[test]
    fn a_model_has_one_mechanism() {
        let text = sata();
        let head = text.split("[rotating]").next().expect("a head").to_owned();
        assert!(error(&head).ends_with("has 0"));
        assert!(error(&format!("{text}\n[network]\nlatency_us = 1.0\n")).ends_with("has 2"));
    }

    #[test]
    fn a_burst_without_its_bucket_is_refused() {
        let text = BUILT_IN[9].1.to_owned() + "burst_iops = 5000\n";
        assert!(error(&text).ends_with("come together"));
    }

    #[test]
    fn an_unknown_name_is_refused() {
        let text = built_in("sata-1999").expect_err("no such model").to_string();
        assert_eq!(text, "no simulated drive is called \"sata-1999\"");
    }
}
