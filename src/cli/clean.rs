//! `fsynclab clean`: undoes what a killed run left behind, from the journals of dead runs.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use anstream::ColorChoice;

use super::output;
use super::problem::Problem;
use crate::simdrive::mount::Record;
use crate::sys::SysError;
use crate::sys::error::shown;
use crate::sys::journal::{self, Journal, Leftovers};
use crate::sys::undo::{Undo, UndoKind, Undone};

/// What every wing knows to undo.
pub fn tables() -> Vec<UndoKind> {
    [crate::sys::undo::UNDO, crate::storage::UNDO, crate::simdrive::mount::UNDO, crate::server::UNDO].concat()
}

/// Undo what a killed run left behind
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Do it without asking
    #[arg(long)]
    yes: bool,
}

/// Lists, asks on a terminal, undoes.
pub fn run(args: &Args, color: ColorChoice) -> anyhow::Result<()> {
    let state = journal::state_directory()?;
    let Leftovers { journals, idle, unreadable } = journal::leftovers(&state)?;
    let tables = tables();
    let mut left: Vec<Left> = unreadable.iter().map(Left::from).collect();
    let (standing, journals): (Vec<Journal>, Vec<Journal>) =
        journals.into_iter().partition(|journal| !standing(journal).is_empty());
    for directory in standing.iter().flat_map(self::standing) {
        let directory = shown(&directory);
        let text = format!(
            "a simulated drive is mounted at {directory}; fsynclab sim umount {directory} takes it away
"
        );
        output::print(&text, color)?;
    }
    for journal in &journals {
        output::print(&listed(journal, &tables), color)?;
        left.extend(journal.damage().map(Left::from));
    }
    let undoable = journals.iter().any(|journal| !journal.entries().is_empty());
    if undoable && !args.yes && !asked()? {
        return Err(Problem::failed("nothing was undone").into());
    }
    if args.yes {
        for journal in idle {
            journal.close()?;
        }
    }
    if journals.is_empty() && left.is_empty() {
        output::print("nothing was left behind\n", color)?;
    }
    // Newest first: a thing changed by two runs comes back to what it was before the first.
    for journal in journals.into_iter().rev() {
        for outcome in undo(journal, &tables)? {
            match outcome {
                Ok(undone) => output::print(&undone, color)?,
                Err(still_there) => left.push(still_there),
            }
        }
    }
    complain_of(&left)
}

/// Undoes all that a run made on its drives, so that these can be taken apart; what is left stays in the journal, for
/// [`undo_own`].
pub fn undo_on_drives(journal: &Journal) -> Result<(), SysError> {
    journal.undo_those(&tables(), |entry| entry.kind != Record::KIND).map(drop)
}

/// Undoes a run's journal at its end; what is left stays in the journal.
pub fn undo_own(journal: Journal) -> anyhow::Result<()> {
    let left: Vec<Left> = undo(journal, &tables())?.into_iter().filter_map(Result::err).collect();
    complain_of(&left)
}

/// Something that is still there.
struct Left {
    words: String,
    /// What to do about it; nothing where another try may do it.
    by_hand: Option<&'static str>,
}

impl From<&SysError> for Left {
    fn from(error: &SysError) -> Self {
        Self { words: error.to_string(), by_hand: error.hint() }
    }
}

fn complain_of(left: &[Left]) -> anyhow::Result<()> {
    if left.is_empty() {
        return Ok(());
    }
    let mut message = "could not undo everything".to_owned();
    for Left { words, .. } in left {
        message += &format!("\n{words}");
    }
    let mut hints: Vec<_> =
        left.iter().map(|left| left.by_hand.unwrap_or("fsynclab clean tries it again")).collect();
    hints.sort_unstable();
    hints.dedup();
    Err(Problem::failed(message).hint(Some(hints.join("\nhint: "))).into())
}

/// Undoes one journal, last made first: for each entry a line, an error where it is still to be undone.
fn undo(journal: Journal, tables: &[UndoKind]) -> anyhow::Result<Vec<Result<String, Left>>> {
    let mut lines = Vec::new();
    for outcome in journal.undo_all(tables)? {
        let words = outcome.entry.describe(tables).unwrap_or_else(|_| outcome.entry.kind.clone());
        lines.push(match outcome.result {
            Ok(Undone::Now) => Ok(format!("undone: {words}\n")),
            Ok(Undone::Before) => Ok(format!("was undone before: {words}\n")),
            Err(error) => Err(Left {
                words: format!("still there: {words}: {error}"),
                by_hand: error.downcast_ref().and_then(SysError::hint),
            }),
        });
    }
    journal.close()?;
    Ok(lines)
}

/// Where drives are mounted that a journal's run left for everybody: `sim mount` makes one, and its journal has no other
/// entry.
pub fn standing(journal: &Journal) -> Vec<PathBuf> {
    let drives = journal.entries().into_iter().filter(|entry| entry.kind == Record::KIND);
    drives.filter_map(|entry| serde_json::from_value::<Record>(entry.data).ok()?.stands_at()).collect()
}

fn listed(journal: &Journal, tables: &[UndoKind]) -> String {
    let lines = journal.entries().into_iter().map(|entry| {
        let words = entry.describe(tables).unwrap_or_else(|error| error.to_string());
        format!("  {words}\n")
    });
    let mut text = format!("left behind, by {}:\n{}", shown(journal.path()), lines.collect::<String>());
    if journal.damage().is_some() {
        text += "  and perhaps more: the journal is damaged\n";
    }
    text
}

/// Whether the user says yes; asked on a terminal only.
fn asked() -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Problem::refused("nothing was undone, for nobody can be asked here")
            .hint(Some("fsynclab clean --yes undoes it"))
            .into());
    }
    let mut stderr = io::stderr();
    write!(stderr, "undo all this? (y/N) ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
