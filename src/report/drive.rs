//! What lies under a path, as text.

use super::layout::{paragraph, warning};
use super::size;
use crate::results::{CacheView, Disk, Document, Place, Stack};

/// A space that a paragraph keeps.
const NO_BREAK: &str = "\u{a0}";

/// The places of a document of kind `drive`: layers, disks, the weakest link, and what else a reader must know.
pub fn drive(document: &Document) -> String {
    let mut text: String = document.places.iter().map(place).collect();
    for note in &document.notes {
        text += &warning(&format!("WARNING: {}", note.text));
    }
    text
}

fn place(place: &Place) -> String {
    let stack = &place.stack;
    let mut text = paragraph(&title(place), 2);
    let width = stack.layers.iter().map(|layer| layer.kind.len()).max().unwrap_or(0);
    for layer in &stack.layers {
        let kind = format!("{:width$}", layer.kind).replace(' ', NO_BREAK);
        text += &indented(&format!("{kind}{NO_BREAK}{NO_BREAK}{}: {}", layer.name, layer.flush), width + 4);
    }
    if let Some(options) = options(stack) {
        text += &indented(&options, 4);
    }
    text += &stack.disks.iter().map(disk).collect::<String>();
    if let Some(weakest) = &stack.weakest_link {
        text += &paragraph(&format!("weakest link: {weakest}"), 2);
    }
    text
}

/// A paragraph that begins two columns in.
fn indented(text: &str, further: usize) -> String {
    paragraph(&format!("{NO_BREAK}{NO_BREAK}{text}"), further)
}

fn title(place: &Place) -> String {
    let Place { path, stack, .. } = place;
    let names: Vec<&str> = stack.disks.iter().map(|disk| disk.name.as_str()).collect();
    let on = if names.is_empty() { String::new() } else { format!(" on {}", names.join(", ")) };
    match stack.file_system.as_str() {
        "" => format!("{path}: a block device{on}"),
        file_system => format!("{path}: {file_system}{on}"),
    }
}

fn options(stack: &Stack) -> Option<String> {
    let word = |name: &str, value: Option<bool>, yes, no| {
        value.map(|value| format!("{name} {}", if value { yes } else { no }))
    };
    let all = [word("barriers", stack.barriers, "on", "OFF"), word("journal", stack.journal, "yes", "no")];
    let known: Vec<String> = all.into_iter().flatten().collect();
    (!known.is_empty()).then(|| known.join(", "))
}

fn disk(disk: &Disk) -> String {
    let mut names = vec![disk.model.clone().unwrap_or_else(|| "no model told".to_owned())];
    names.extend(disk.firmware.as_ref().map(|firmware| format!("firmware {firmware}")));
    names.extend(disk.serial.as_ref().map(|serial| format!("serial {serial}")));
    let mut text = paragraph(&format!("disk {}: {}", disk.name, names.join(", ")), 2);
    text += &indented(&facts(disk).join(", "), 4);
    text + &indented(&format!("write cache: {}", cache(&disk.write_cache)), 4)
}

fn facts(disk: &Disk) -> Vec<String> {
    let mut facts = vec![disk.kind.clone()];
    if disk.r#virtual {
        facts.push("virtual".to_owned());
    }
    facts.extend(disk.size_bytes.map(size));
    if let (Some(logical), Some(physical)) = (disk.logical_block_bytes, disk.physical_block_bytes) {
        facts.push(format!("blocks {logical}/{physical}"));
    }
    facts.extend(disk.scheduler.as_ref().map(|scheduler| format!("scheduler {scheduler}")));
    match disk.claimed_rpm {
        Some(0) => facts.push("claims that nothing turns".to_owned()),
        Some(rpm) => facts.push(format!("claims {rpm} rpm ({:.2} ms a turn)", 60_000.0 / f64::from(rpm))),
        None if disk.rotational => facts.push("the kernel takes it for rotating".to_owned()),
        None => {}
    }
    facts.push(if disk.fua { "FUA" } else { "no FUA" }.to_owned());
    if !disk.paths.is_empty() {
        facts.push(format!("paths {}", disk.paths.join(", ")));
    }
    facts
}

/// Both views side by side, and whether they agree.
fn cache(view: &CacheView) -> String {
    let kernel =
        view.kernel.as_deref().map_or("kernel unknown".to_owned(), |words| format!("kernel \"{words}\""));
    let remark = view.remark.as_ref().map(|remark| format!(" ({remark})")).unwrap_or_default();
    let Some(drive) = &view.drive else { return format!("drive unknown{remark}, {kernel}") };
    let agree = match (drive.as_str(), view.kernel.as_deref()) {
        ("on", Some("write back")) | ("off" | "none", Some("write through")) => " (agree)",
        (_, Some(_)) => " (DISAGREE)",
        (_, None) => "",
    };
    format!("drive {}{remark}, {kernel}{agree}", drive.to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Layer;

    #[test]
    fn both_views_stand_side_by_side() {
        let view = |kernel: &str, drive: &str| CacheView {
            kernel: Some(kernel.to_owned()),
            drive: Some(drive.to_owned()),
            remark: None,
        };
        assert_eq!(cache(&view("write back", "on")), "drive ON, kernel \"write back\" (agree)");
        assert_eq!(cache(&view("write back", "off")), "drive OFF, kernel \"write back\" (DISAGREE)");
        assert_eq!(cache(&view("write through", "none")), "drive NONE, kernel \"write through\" (agree)");
        let unasked = CacheView { remark: Some("asking needs root".to_owned()), ..CacheView::default() };
        assert_eq!(cache(&unasked), "drive unknown (asking needs root), kernel unknown");
    }

    #[test]
    fn no_line_is_wider_than_a_mail() {
        let layer = Layer {
            kind: "loop".to_owned(),
            name: "loop3".to_owned(),
            flush: format!("makes an fsync of /{} of a flush", "long name/".repeat(20)),
            passes_flush: Some(true),
        };
        let disk = Disk { name: "sda".to_owned(), claimed_rpm: Some(7200), ..Disk::default() };
        let stack = Stack {
            file_system: "ext4".to_owned(),
            layers: vec![layer],
            disks: vec![disk],
            weakest_link: Some("w ".repeat(60)),
            barriers: Some(false),
            ..Stack::default()
        };
        let path = format!("/{}", "p".repeat(100));
        let text = place(&Place { id: "p1".to_owned(), path, simulated: false, model: None, stack });
        assert!(text.lines().all(|line| line.chars().count() <= super::super::WIDTH), "{text}");
        assert!(text.contains("barriers OFF") && text.contains("claims 7200 rpm (8.33 ms a turn)"), "{text}");
    }
}
